// a conversion that converts itself for ever
// ends: error TimeoutError limit.cpu
const o = { [Symbol.toPrimitive]() { for (;;) {} } };
return `${o}`;
