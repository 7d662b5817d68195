// promise members deleted
// ends: value {"r":{"a":1},"p":2}
delete Promise.prototype.then; delete Promise.prototype.constructor; return { r: demo.echo({ a: 1 }), p: (async () => 2)() };
