// an async function that calls itself
// ends: error StackError limit.stack
const f = async (n) => f(n + 1); return f(0);
