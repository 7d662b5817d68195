// global getter demo
// ends: value [{"a":1}]
Object.defineProperty(globalThis, "demo", { get() { throw 1; }, configurable: true }); return [await __backends.demo.echo({ a: 1 })];
