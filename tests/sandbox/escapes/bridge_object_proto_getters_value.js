// object proto getters value
// ends: value 1
const def = Object.defineProperty; for (const k of ["id","value","type","get","set","then","kind","backend","tool","arguments","ok","name","message","stack","error","done","next","length","constructor","toJSON","configurable","enumerable","writable","at","settled","wake","calls","raw","toString","valueOf","notes","refs","cause","errors","size","entries"]) def(Object.prototype, k, { __proto__: null, get() { return 7; }, configurable: true }); const r = await demo.echo({ a: 1 }); return r.a;
