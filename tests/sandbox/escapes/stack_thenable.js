// thenables that nest calls
// ends: error StackError limit.stack
const f = (n) => ({ then(ok) { n > 0 ? f(n - 1).then(ok) : ok(1); } }); return await f(1e5);
