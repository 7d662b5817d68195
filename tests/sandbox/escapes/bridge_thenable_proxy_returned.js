// a returned Proxy whose then is itself
// ends: error DeadlockError
const p = new Proxy(function () {}, { get: () => p, apply: () => p }); return p;
