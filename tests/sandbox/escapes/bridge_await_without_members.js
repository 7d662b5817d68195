// await without members
// ends: value ["object",{"p":3}]
delete Promise.prototype.then; delete Promise.prototype.constructor; const r = await demo.echo({ a: 1 }); return [typeof r, await demo.echo({ p: Promise.resolve(3) })];
