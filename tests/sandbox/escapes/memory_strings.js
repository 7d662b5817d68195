// strings without end
// ends: error MemoryError limit.memory
let s = "x".repeat(1e6); const a = []; for (;;) { s += "y"; a.push(s + Math.random()); }
