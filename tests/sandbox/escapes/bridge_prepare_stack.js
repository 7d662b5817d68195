// Error.prepareStackTrace
// ends: value [{"a":1},"TypeError","ToolError"]
Error.prepareStackTrace = () => { throw new Error("stack"); };
const r = [await demo.echo({ a: 1 })];
try { null.x; } catch (e) { r.push(e.name); } try { await demo.fail({ message: "boom" }); } catch (e) { r.push(e.name); } return r;
