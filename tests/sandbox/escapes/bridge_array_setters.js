// the bridge with array setters broken
// ends: value [{"a":1}]
for (let i = 0; i < 50; i++) Object.defineProperty(Array.prototype, i, { set() { throw 1; }, get() { throw 2; } }); return [await demo.echo({ a: 1 })];
