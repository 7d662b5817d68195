// reflect deleted
// ends: value {"a":[1,"x",null]}
const own = Reflect.ownKeys; for (const o of [Object, Reflect, JSON, Promise, Array, Map, Set, Symbol, String, Number]) for (const k of own(o)) { try { delete o[k]; } catch {} } const r = await demo.echo({ a: [1, "x", null] }); return r;
