// async recursion
// ends: error StackError limit.stack
const f = async (n) => n === 0 ? 0 : 1 + await f(n - 1); return await f(20000);
