// a forged call promise
// ends: value ["TypeError",{"a":1}]
const p = demo.echo({ a: 1 });
const fake = Object.create(Object.getPrototypeOf(p));
try { await fake;
return "in"; } catch (e) { return [e.name, await p]; }
