// errors kept without end
// ends: error MemoryError limit.memory
const a = []; const f = (n) => n === 0 ? a.push(new Error("e".repeat(100) + a.length)) : f(n - 1); for (;;) f(50);
