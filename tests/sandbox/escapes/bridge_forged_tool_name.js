// a tool whose name closes the message
// ends: value {"a":1}
try { return await demo["x\",false,{}],[7,\"tool\",\"demo\",\"write"]({ a: 1 }); } catch (e) { return e.name; }
