// the bridge with json broken
// ends: value [{"a":1}]
JSON.stringify = JSON.parse = () => { throw 1; }; JSON = null; return [await demo.echo({ a: 1 })];
