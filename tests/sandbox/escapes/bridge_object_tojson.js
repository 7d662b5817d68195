// the bridge with object tojson broken
// ends: value [{"a":1}]
Object.prototype.toJSON = Array.prototype.toJSON = String.prototype.toJSON = Number.prototype.toJSON = () => "hijacked"; return [await demo.echo({ a: 1 })];
