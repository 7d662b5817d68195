// the bridge with map broken
// ends: value [{"a":1}]
for (const k of ["get", "set", "has", "delete"]) { Map.prototype[k] = WeakMap.prototype[k] = Set.prototype[k] = () => { throw 1; }; } Map.prototype.forEach = null; return [await demo.echo({ a: 1 })];
