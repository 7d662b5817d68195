// weak references
// ends: value 1
let o = { a: 1 }; const w = new WeakRef(o); return w.deref().a;
