// typed length lie
// ends: value [{"u":[0,0,0,0]},[0,0,0,0]]
const u = new Uint8Array(4); Object.defineProperty(u, "length", { get() { return 2 ** 32; } }); return [await demo.echo({ u }), u];
