// buffers without end
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1));
