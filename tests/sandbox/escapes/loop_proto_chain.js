// an endless prototype chain
// ends: error Error
const h = { getPrototypeOf: () => new Proxy({}, h) }; throw new Proxy({}, h);
