// the bridge with deleted broken
// ends: value [{"a":1}]
for (const k of Object.getOwnPropertyNames(globalThis)) if (k !== "demo") try { delete globalThis[k]; } catch {} return [await demo.echo({ a: 1 })];
