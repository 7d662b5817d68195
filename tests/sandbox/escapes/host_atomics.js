// waiting and notifying on shared memory
// ends: value ["ReferenceError","ReferenceError","ReferenceError"]
const out = [];
for (const f of [() => Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 5), () => Atomics.notify(new Int32Array(new SharedArrayBuffer(8)), 0), () => Atomics.waitAsync(new Int32Array(new SharedArrayBuffer(8)), 0, 0)]) { try { out.push(typeof f()); } catch (e) { out.push(e.name); } } return out;
