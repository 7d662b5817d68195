// spreading a hundred thousand items for ever
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push(...new Array(1e5).fill(1));
