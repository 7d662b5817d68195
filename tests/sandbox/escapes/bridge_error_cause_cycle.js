// error cause cycle
// ends: error Error
const e = new Error("a"); e.cause = e; e.errors = [e, e]; e.stack = { toString() { throw 1; } }; throw e;
