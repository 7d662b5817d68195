// the bridge with async proto broken
// ends: value [{"a":1}]
const A = Object.getPrototypeOf(async function () {}); try { Object.setPrototypeOf(A, null); } catch {} return [await demo.echo({ a: 1 })];
