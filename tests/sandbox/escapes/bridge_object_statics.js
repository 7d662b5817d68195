// the bridge with object statics broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(Object)) if (typeof Object[k] === "function") Object[k] = () => { throw 1; }; return [await demo.echo({ a: 1 })];
