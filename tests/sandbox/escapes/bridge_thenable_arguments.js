// thenables in arguments
// ends: value {"a":{},"b":{"then":5},"c":[2]}
return await demo.echo({ a: { then(ok) { ok(1); } }, b: Promise.resolve({ then: 5 }), c: [Promise.resolve(2)] });
