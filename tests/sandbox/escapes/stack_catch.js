// recursion that is caught
// ends: error StackError limit.stack
const f = () => { try { return f(); } catch { return f(); } }; return f();
