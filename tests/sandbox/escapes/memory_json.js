// a value whose text does not fit
// ends: error
const row = "x".repeat(1e6); return Array.from({ length: 64 }, () => row);
