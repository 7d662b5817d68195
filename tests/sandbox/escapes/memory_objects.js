// objects without end
// ends: error MemoryError limit.memory
let o = null; for (;;) o = { o, a: 1, b: 2 };
