// a map without end
// ends: error MemoryError limit.memory
const m = new Map(); for (let i = 0; ; i++) m.set(i, {});
