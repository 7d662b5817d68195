// the bridge with frozen broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(globalThis)) { try { Object.freeze(globalThis[k]); Object.freeze(globalThis[k].prototype); } catch {} } Object.freeze(globalThis); return [await demo.echo({ a: 1 })];
