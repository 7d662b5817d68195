// prepare stack calls
// ends: error Error
Error.prepareStackTrace = () => { demo.echo({ a: 1 }); throw 1; }; throw new Error("x");
