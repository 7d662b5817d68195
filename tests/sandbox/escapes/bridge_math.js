// the bridge with math broken
// ends: value [{"a":1}]
Math.random = Math.floor = Math.max = () => { throw 1; }; return [await demo.echo({ a: 1 })];
