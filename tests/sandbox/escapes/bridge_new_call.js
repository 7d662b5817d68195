// new call
// ends: value TypeError
try { new demo.echo({ a: 1 }); } catch (e) { return e.name; } return "made";
