// a then of an argument that never ends
// ends: error TimeoutError limit.cpu
return await demo.echo({ get then() { for (;;) {} } });
