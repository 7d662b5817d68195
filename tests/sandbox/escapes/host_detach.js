// a buffer detached while it is sorted
// ends: any
const u = new Uint8Array(64); u.sort(() => { try { u.buffer.transfer(); } catch {} return 1; }); return u.length;
