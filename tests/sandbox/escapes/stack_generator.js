// generators that delegate
// ends: error StackError limit.stack
function* g(n) { if (n > 0) yield* g(n - 1); else yield 1; } return [...g(1e5)];
