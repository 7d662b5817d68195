// recursion without end
// ends: error StackError limit.stack
const f = (n) => f(n + 1) + 1; return f(0);
