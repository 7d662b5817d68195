// bound functions with very many arguments
// ends: error StackError limit.stack
let f = (...a) => a.length; for (let i = 0; i < 20; i++) f = f.bind(null); return f(...new Array(1e5).fill(1));
