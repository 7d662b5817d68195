// symbols without end
// ends: error MemoryError limit.memory
const a = []; for (let i = 0; ; i++) a.push(Symbol("s" + i), Symbol.for("k" + i));
