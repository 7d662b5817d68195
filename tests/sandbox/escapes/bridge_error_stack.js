// the bridge with error stack broken
// ends: value [{"a":1}]
Error.prepareStackTrace = () => ({ get length() { throw 1; } }); return [await demo.echo({ a: 1 })];
