// symbol has instance
// ends: value {"e":{"name":"RangeError","message":"r"},"m":{"k":1},"d":"1970-01-01T00:00:00.000Z","p":{"a":1}}
for (const C of [Error, Map, Set, Date, Promise, Array, Object, Function]) Object.defineProperty(C, Symbol.hasInstance, { value() { throw new Error("instance"); } }); return { e: new RangeError("r"), m: new Map([["k", 1]]), d: new Date(0), p: demo.echo({ a: 1 }) };
