// the bridge with array methods broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(Array.prototype)) if (k !== "length") Array.prototype[k] = () => { throw 1; }; return [await demo.echo({ a: 1 })];
