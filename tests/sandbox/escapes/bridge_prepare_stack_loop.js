// Error.prepareStackTrace that never ends
// ends: error TimeoutError limit.cpu
Error.prepareStackTrace = () => { for (;;) {} }; return [await demo.echo({ a: 1 })];
