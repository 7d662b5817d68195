// recursion through replace
// ends: error StackError limit.stack
const f = () => "a".replace(/a/, f); return f();
