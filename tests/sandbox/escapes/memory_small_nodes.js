// ten million small nodes
// ends: error MemoryError limit.memory
const a = []; for (let i = 0; i < 1e7; i++) a.push({ i }); return a;
