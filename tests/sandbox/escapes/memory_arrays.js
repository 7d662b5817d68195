// arrays without end
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push(new Array(1e4).fill(1));
