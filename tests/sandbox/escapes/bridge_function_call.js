// the bridge with function call broken
// ends: value [{"a":1}]
Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1; }; return [await demo.echo({ a: 1 })];
