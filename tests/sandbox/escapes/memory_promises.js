// promises without end
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push(new Promise(() => {}).then(() => {}));
