// regexp symbol
// ends: value [{"a":1}]
for (const s of [Symbol.replace, Symbol.match, Symbol.split, Symbol.matchAll, Symbol.search]) RegExp.prototype[s] = () => { throw 1; }; Object.defineProperty(RegExp.prototype, "flags", { get() { throw 2; } }); return [await demo.echo({ a: 1 })];
