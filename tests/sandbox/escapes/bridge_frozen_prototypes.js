// frozen prototypes
// ends: value [{"a":1},[]]
for (const k of Object.getOwnPropertyNames(globalThis)) { const v = globalThis[k]; if (typeof v === "function" && v.prototype) Object.freeze(v.prototype); } Object.freeze(Object.getPrototypeOf(demo.echo));
const p = demo.echo({ a: 1 });
try { Object.freeze(Object.getPrototypeOf(p)); } catch {} return [await p, await results.list()];
