// to string tag
// ends: value [{"o":{}},{}]
const o = { get [Symbol.toStringTag]() { throw new Error("tag"); } }; console.log(o); return [await demo.echo({ o }), o];
