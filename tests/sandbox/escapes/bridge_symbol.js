// the bridge with symbol broken
// ends: value [{"a":1}]
globalThis.Symbol = null; globalThis.Proxy = null; globalThis.Date = null; return [await demo.echo({ a: 1 })];
