// weak maps and references without end
// ends: error MemoryError limit.memory
const m = new WeakMap(), k = []; for (let i = 0; ; i++) { const o = {}; k.push(o, new WeakRef(o)); m.set(o, [i]); }
