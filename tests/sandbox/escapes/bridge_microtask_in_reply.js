// microtask in reply
// ends: value [true,{"a":1}]
let n = 0; const f = () => { if (n++ < 1e5) queueMicrotask(f); }; f(); const r = await demo.echo({ a: 1 }); return [n > 1e5, r];
