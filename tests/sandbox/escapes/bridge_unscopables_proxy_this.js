// unscopables proxy this
// ends: value [{"a":1},{"b":1}]
const p = new Proxy(demo, { get(t, k) { return k === Symbol.unscopables ? p : Reflect.get(t, k); } }); return [await p.echo({ a: 1 }), await Reflect.apply(demo.echo, new Proxy({}, { get() { throw 1; } }), [{ b: 1 }])];
