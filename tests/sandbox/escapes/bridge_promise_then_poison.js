// promise then poison
// ends: value [{"a":1}]
Promise.prototype.then = function () { return this; }; Promise.resolve = () => ({ then(f) { f(666); } }); return [await demo.echo({ a: 1 })];
