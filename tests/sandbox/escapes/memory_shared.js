// shared buffers without end
// ends: error MemoryError limit.memory
const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1e6)).fill(1));
