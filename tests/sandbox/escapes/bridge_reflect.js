// the bridge with reflect broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(Reflect)) Reflect[k] = () => { throw 1; }; globalThis.Reflect = null; return [await demo.echo({ a: 1 })];
