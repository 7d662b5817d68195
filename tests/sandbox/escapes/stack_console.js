// a logged value that logs
// ends: error StackError limit.stack
const o = { get a() { console.log(o); return 1; } }; console.log(o); return 1;
