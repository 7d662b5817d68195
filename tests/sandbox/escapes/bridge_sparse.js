// a sparse array of the greatest length as value
// ends: error MemoryError limit.memory
const a = []; a.length = 2 ** 32 - 1; return a;
