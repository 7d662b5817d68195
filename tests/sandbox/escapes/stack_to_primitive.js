// a conversion that calls itself
// ends: error StackError limit.stack
const o = { [Symbol.toPrimitive]() { return `${o}`; } };
return +o;
