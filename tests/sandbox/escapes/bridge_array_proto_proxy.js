// array proto proxy
// ends: error Error
Object.setPrototypeOf(Array.prototype, new Proxy({}, { get(t, k) { throw new Error("ap " + String(k)); }, has() { return true; }, set() { throw 2; } })); return [await demo.echo({ a: [1, , 3] })];
