// a Proxy with endless work in ownKeys
// ends: error TimeoutError limit.cpu
return new Proxy({}, { ownKeys() { for (;;) {} } });
