// throw proxy function
// ends: error Error
throw new Proxy(function () {}, { get(t, k) { throw new Error("get " + String(k)); }, has() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } });
