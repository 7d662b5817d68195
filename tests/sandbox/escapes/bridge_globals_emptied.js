// globals emptied
// ends: value {"a":1}
const own = Reflect.ownKeys(globalThis); for (const k of own) { if (k !== "demo") try { delete globalThis[k]; } catch {} } const r = await demo.echo({ a: 1 }); return r;
