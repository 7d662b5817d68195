// Error.stackTraceLimit
// ends: value [{"a":1},{"b":1},{"c":1}]
Error.stackTraceLimit = { valueOf() { throw 1; } };
const a = [await demo.echo({ a: 1 })];
Error.stackTraceLimit = Infinity; a.push(await demo.echo({ b: 1 }));
Object.defineProperty(Error, "stackTraceLimit", { get() { throw 2; } }); a.push(await demo.echo({ c: 1 }));
return a;
