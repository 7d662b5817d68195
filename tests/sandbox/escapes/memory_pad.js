// padding beyond memory
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push("".padEnd(2 ** 24, "ab") + a.length);
