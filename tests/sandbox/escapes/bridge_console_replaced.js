// a console made of getters
// ends: value [{"a":1}]
Object.defineProperty(console, "log", { get() { throw new Error("no log"); } });
globalThis.console = new Proxy(console, { get() { throw 1; } });
return [await demo.echo({ a: 1 })];
