// timers without end
// ends: error MemoryError limit.memory
for (;;) setTimeout(() => {}, 1e6);
