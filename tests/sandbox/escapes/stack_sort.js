// recursion through sort
// ends: error StackError limit.stack
const f = () => [2, 1].sort(f); return f();
