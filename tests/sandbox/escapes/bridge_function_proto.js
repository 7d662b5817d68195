// function proto
// ends: value {"f":1}
Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1; }; Object.defineProperty(Function.prototype, "name", { get() { throw 2; } }); Function.prototype[Symbol.hasInstance] ; const r = await demo.echo({ f: 1 }); return r;
