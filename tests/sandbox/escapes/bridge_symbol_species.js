// a species that never ends
// ends: value [{"a":1}]
const p = demo.echo({ a: 1 }); Object.defineProperty(Promise, Symbol.species, { get() { for (;;) {} } }); return [await p.then((x) => x)];
