// making call promises by hand
// ends: value ["TypeError",{"a":1}]
const p = demo.echo({ a: 1 }); const C = p.constructor; try { new C(() => {}); return "in"; } catch (e) { return [e.name, await p]; }
