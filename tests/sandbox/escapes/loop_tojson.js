// a toJSON that never ends
// ends: error TimeoutError limit.cpu
return { toJSON() { for (;;) {} } };
