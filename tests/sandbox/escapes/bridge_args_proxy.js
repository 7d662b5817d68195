// arguments that are a hostile Proxy
// ends: any
return await demo.echo(new Proxy({}, { ownKeys() { throw 1; }, getPrototypeOf() { throw 2; } }));
