// a next that never ends
// ends: error TimeoutError limit.cpu
return { __proto__: Iterator.prototype, next() { for (;;) {} } };
