// the bridge with typed broken
// ends: value [{"a":1}]
const T = Object.getPrototypeOf(Uint8Array.prototype); for (const k of ["set", "fill", "length"]) Object.defineProperty(T, k, { get() { throw 1; } }); console.log("x"); return [await demo.echo({ a: 1 })];
