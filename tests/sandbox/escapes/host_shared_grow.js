// a shared buffer that grows under its view
// ends: error TypeError
const s = new SharedArrayBuffer(8, { maxByteLength: 1 << 20 });
const u = new Uint8Array(s);
let n = 0; u.forEach(() => { try { s.grow(1 << 20); } catch {} n++; });
return n;
