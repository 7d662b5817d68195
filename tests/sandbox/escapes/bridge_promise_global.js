// the bridge with promise global broken
// ends: value [{"a":1}]
globalThis.Promise = class {}; return [await demo.echo({ a: 1 })];
