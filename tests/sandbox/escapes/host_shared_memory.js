// shared memory and waiting on it
// ends: any
const s = new Int32Array(new SharedArrayBuffer(16)); return Atomics.wait(s, 0, 0, 1e9);
