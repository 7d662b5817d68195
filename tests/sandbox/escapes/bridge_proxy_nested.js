// Proxies that give new Proxies at every step
// ends: value note depth
const make = () => new Proxy({}, { ownKeys: () => ["a"], getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }), get: (t, k) => k === "a" ? make() : undefined });
return make();
