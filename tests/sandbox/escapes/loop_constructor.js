// a promise whose constructor never ends
// ends: error TimeoutError limit.cpu
const p = Promise.resolve(1); Object.defineProperty(p, "constructor", { get() { for (;;) {} } }); return p;
