// string proto proxy
// ends: error Error
Object.setPrototypeOf(String.prototype, new Proxy({}, { get(t, k) { throw new Error("sp " + String(k)); } })); return [await demo.echo({ a: "x" }), "y".foo];
