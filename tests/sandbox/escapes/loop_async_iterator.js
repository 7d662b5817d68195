// an async iterator that never ends
// ends: error TimeoutError limit.cpu
const it = { [Symbol.asyncIterator]() { return { next: async () => ({ done: false, value: 1 }) }; } };
for await (const n of it) globalThis.n = n;
