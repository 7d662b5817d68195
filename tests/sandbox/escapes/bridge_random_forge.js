// random forge
// ends: value [{"a":1}]
Math.random = () => { throw 1; }; crypto.randomUUID = () => "x"; globalThis.crypto = null; return [await demo.echo({ a: 1 })];
