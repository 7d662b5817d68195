// the bridge with backends broken
// ends: value [{"a":1}]
try { __backends.demo = null; } catch {} globalThis.__backends = null; return [await demo.echo({ a: 1 })];
