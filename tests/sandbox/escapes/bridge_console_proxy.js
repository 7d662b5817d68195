// console with a hostile Proxy
// ends: value 1
console.log(new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; }, getPrototypeOf() { throw 3; } })); return 1;
