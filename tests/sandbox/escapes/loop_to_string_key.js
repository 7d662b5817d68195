// a key that never ends
// ends: error TimeoutError limit.cpu
return await demo[{ toString() { for (;;) {} } }]({});
