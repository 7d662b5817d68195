// a Proxy with a hundred thousand keys as arguments
// ends: error TimeoutError limit.cpu
const keys = Array.from({ length: 1e5 }, (_, i) => "k" + i);
await demo.sink(new Proxy({}, { ownKeys: () => keys, getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: () => 1 }));
return 1;
