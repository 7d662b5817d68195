// closures without end
// ends: error MemoryError limit.memory
let f = () => 0; for (;;) { const g = f; f = () => g; }
