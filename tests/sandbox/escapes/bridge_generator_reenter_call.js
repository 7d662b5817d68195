// generator reenter call
// ends: value ["TypeError",{"a":1}]
function* g() { yield it.next(); } const it = g(); try { it.next(); } catch (e) { return [e.name, await demo.echo({ a: 1 })]; }
