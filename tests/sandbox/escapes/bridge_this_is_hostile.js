// this is hostile
// ends: value [{"a":1},{"a":2},{"a":3}]
const f = demo.echo; const bad = new Proxy(function () {}, { get() { throw 1; }, apply() { throw 2; }, getPrototypeOf() { throw 3; } }); return [await f.call(bad, { a: 1 }), await f.call(null, { a: 2 }), await f.apply(1n, [{ a: 3 }])];
