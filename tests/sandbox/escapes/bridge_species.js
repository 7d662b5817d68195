// the bridge with species broken
// ends: value [{"a":1}]
Object.defineProperty(Promise, Symbol.species, { get() { throw 1; } }); return [await demo.echo({ a: 1 })];
