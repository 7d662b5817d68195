// the bridge with error broken
// ends: value [{"a":1}]
Error.prepareStackTrace = () => { throw 1; }; Error.stackTraceLimit = "x"; Error.captureStackTrace = null; globalThis.Error = null; return [await demo.echo({ a: 1 })];
