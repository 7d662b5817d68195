// arguments just under their limit, many at once
// ends: error MemoryError limit.memory
const s = "x".repeat(4e6); await Promise.all(Array.from({ length: 10 }, () => demo.sink({ s }))); return 1;
