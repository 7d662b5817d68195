// thenable reply value
// ends: value 666
const r = await demo.echo({ then: "not a function", value: 1 }); Object.prototype.then = function (a) { a(666); }; return [r.value, await demo.echo({ b: 1 })];
