// the bridge with string methods broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(String.prototype)) if (k !== "length") String.prototype[k] = () => { throw 1; }; return [await demo.echo({ a: 1 })];
