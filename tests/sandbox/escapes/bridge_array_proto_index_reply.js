// array proto index reply
// ends: value [1,"number"]
Object.defineProperty(Array.prototype, 0, { set() { globalThis.hit = 1; }, get() { return 9; }, configurable: true }); const r = await demo.echo({ n: JSON.parse("[1,2]") }); return [r.n[0], typeof hit];
