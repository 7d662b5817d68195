// tojson calls backend
// ends: value {"a":1}
Object.prototype.toJSON = function () { demo.echo({ again: 1 }); return this; }; return await demo.echo({ a: 1 });
