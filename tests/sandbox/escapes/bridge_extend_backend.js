// extend backend
// ends: value TypeError
try { class X extends demo.echo {} ; new X({ a: 1 }); return "made"; } catch (e) { return e.name; }
