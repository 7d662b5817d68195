// capture stack proxy
// ends: value 1
Error.captureStackTrace(new Proxy({}, { defineProperty() { throw new Error("dp"); } }), function f() {}); return 1;
