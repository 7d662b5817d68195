// a logged Proxy with a hundred thousand keys
// ends: error TimeoutError limit.cpu
const keys = Array.from({ length: 1e5 }, (_, i) => "k" + i);
console.log(new Proxy({}, { ownKeys: () => keys, getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: () => 1 }));
return 1;
