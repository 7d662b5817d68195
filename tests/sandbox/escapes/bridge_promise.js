// the bridge with promise broken
// ends: value [{"a":1}]
Promise.prototype.then = () => { throw 1; }; Promise.resolve = Promise.all = null; return [await demo.echo({ a: 1 })];
