// the bridge with call promise broken
// ends: value [{"a":1}]
const p = demo.echo({ a: 1 }); try { Object.getPrototypeOf(p).then = () => { throw 1; }; } catch {} try { Object.setPrototypeOf(Object.getPrototypeOf(p), null); } catch {} try { p.constructor[Symbol.species] = null; } catch {} return [await p];
