// an endless prototype chain
// ends: error TimeoutError limit.cpu
const h = { getPrototypeOf: () => new Proxy({}, h) }; throw new Proxy({}, h);
