// the bridge with object then broken
// ends: value [{"a":1}]
for (const k of ["get", "set", "value", "writable", "enumerable", "configurable", "__proto__"]) Object.defineProperty(Object.prototype, k, { __proto__: null, value: () => 5 }); return [await demo.echo({ a: 1 })];
