// Error.prepareStackTrace that gives odd things
// ends: error Error
Error.prepareStackTrace = (e, frames) => ({ toString() { throw 1; }, frames }); throw new Error("with odd stack");
