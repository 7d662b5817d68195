// backend set proto
// ends: value [{"a":1},["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError"]]
const r = []; for (const f of [() => Object.setPrototypeOf(demo, null), () => Object.defineProperty(demo, "echo", { value: () => 666 }), () => Object.freeze(demo), () => Object.preventExtensions(demo), () => delete demo.echo, () => (demo.echo = () => 666)]) { try { f(); r.push("ok"); } catch (e) { r.push(e.name); } } return [await demo.echo({ a: 1 }), r];
