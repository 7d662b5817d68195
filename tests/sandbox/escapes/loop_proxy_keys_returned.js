// a Proxy with a hundred thousand keys
// ends: error TimeoutError limit.cpu
const keys = Array.from({ length: 1e5 }, (_, i) => "k" + i);
return new Proxy({}, { ownKeys: () => keys, getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: () => 1 });
