// every object made thenable
// ends: any
Object.prototype.then = function (f) { f(1); }; return [await demo.echo({ a: 1 })];
