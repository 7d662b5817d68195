// a prototype that answers with Proxies
// ends: error
Object.setPrototypeOf(Object.prototype, null);
const p = new Proxy({}, { getPrototypeOf() { return Error.prototype; }, get() { return p; } });
throw p;
