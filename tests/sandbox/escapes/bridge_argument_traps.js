// a Proxy as arguments, all of whose traps throw
// ends: error TypeError
const t = () => { throw new TypeError("trap"); };
const p = new Proxy({}, { get: t, ownKeys: t, has: t, getPrototypeOf: t, getOwnPropertyDescriptor: t });
await demo.echo(p);
