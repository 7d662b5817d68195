// a Proxy whose every member is a function
// ends: value {}
const p = new Proxy(() => p, { get: (t, k) => k === "then" ? undefined : p }); return await demo.echo({ p });
