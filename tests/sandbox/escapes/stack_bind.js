// a chain of bound functions
// ends: error
let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); return f();
