// a buffer resized under its view
// ends: any
const b = new ArrayBuffer(8, { maxByteLength: 1 << 20 }); const u = new Uint8Array(b); u.map(() => { b.resize(0); return 1; }); return u.length;
