// splitting into too many pieces
// ends: error MemoryError limit.memory
const s = "ab".repeat(4e6); const a = []; for (;;) a.push(s.split("a"));
