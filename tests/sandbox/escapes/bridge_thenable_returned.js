// a returned thenable
// ends: value {"a":1}
return { then(ok) { ok(demo.echo({ a: 1 })); } };
