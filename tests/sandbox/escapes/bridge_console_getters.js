// getters on what is logged
// ends: value 1
console.log({ get a() { throw { get message() { throw 1; } }; } }, new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; } }), { get [Symbol.toStringTag]() { throw 3; } }, { get constructor() { throw 4; } });
return 1;
