// cloning a deep value
// ends: error StackError limit.stack
let x = []; for (let i = 0; i < 1e5; i++) x = [x]; return typeof structuredClone(x);
