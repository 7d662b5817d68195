// json proto argument
// ends: value [true,["__proto__","constructor"],true,1]
const a = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'); const r = await demo.echo(a); return [({}).polluted === undefined, Object.keys(r), Object.getPrototypeOf(r) === Object.prototype, r.constructor.prototype.polluted];
