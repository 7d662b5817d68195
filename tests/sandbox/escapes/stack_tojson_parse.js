// a reviver that parses
// ends: error StackError limit.stack
const f = () => JSON.parse("[1]", f); return f();
