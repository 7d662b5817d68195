// species of arrays
// ends: value [{"a":[1,2]}]
class Evil extends Array { static get [Symbol.species]() { throw new Error("species"); } } Object.defineProperty(Array, Symbol.species, { get() { throw new Error("species"); } });
return [await demo.echo({ a: [1, 2] })];
