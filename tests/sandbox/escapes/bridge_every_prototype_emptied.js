// every prototype emptied
// ends: value {"a":[1,{"b":2}]}
const own = Reflect.ownKeys; const del = Reflect.deleteProperty; for (const C of [Array, Map, Set, Promise, String, Number, RegExp, Date, Function, Error, Symbol, WeakMap, Uint8Array, ArrayBuffer]) { const all = own(C.prototype); for (let i = 0; i < all.length; i++) del(C.prototype, all[i]); } const r = await demo.echo({ a: [1, { b: 2 }] }); return r;
