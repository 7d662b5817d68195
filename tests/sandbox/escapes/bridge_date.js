// the bridge with date broken
// ends: value [{"a":1}]
Date.now = () => { throw 1; }; return [await demo.echo({ a: 1 })];
