// a deep value made text
// ends: error StackError limit.stack
let x = []; for (let i = 0; i < 1e5; i++) x = [x]; return JSON.stringify(x);
