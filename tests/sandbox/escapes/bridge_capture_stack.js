// Error.captureStackTrace
// ends: value [{"a":1}]
Error.captureStackTrace = () => { for (;;) {} }; return [await demo.echo({ a: 1 })];
