// resizable arg
// ends: value [{"u":[],"shrink":1,"v":[]},0]
const b = new ArrayBuffer(8, { maxByteLength: 1 << 16 }); const u = new Uint8Array(b); const o = { u, get shrink() { b.resize(0); return 1; }, v: u }; return [await demo.echo(o), u.length];
