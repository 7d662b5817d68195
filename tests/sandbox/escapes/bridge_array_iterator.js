// the bridge with array iterator broken
// ends: value [{"a":1}]
Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1; }; return [await demo.echo({ a: 1 })];
