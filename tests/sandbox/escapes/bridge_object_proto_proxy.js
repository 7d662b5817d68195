// object proto proxy
// ends: value ["TypeError",{"a":1}]
try { Object.setPrototypeOf(Object.prototype, new Proxy({}, { get() { throw 1; } })); } catch (e) { return [e.name, await demo.echo({ a: 1 })]; }
