// weak references to calls, read after their objects are gone
// ends: value true
const refs = [];
for (let i = 0; i < 1000; i++) refs.push(new WeakRef(demo.sink({ i })));
await sleep(1);
return refs.every((r) => { const v = r.deref();
return v === undefined || typeof v.then === "function"; });
