// a setPrototypeOf that never ends
// ends: error TimeoutError limit.cpu
return [await demo.echo({ a: new Proxy([], { getPrototypeOf() { for (;;) {} } }) })];
