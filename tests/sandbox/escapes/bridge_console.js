// the bridge with console broken
// ends: value [{"a":1}]
globalThis.console = null; return [await demo.echo({ a: 1 })];
