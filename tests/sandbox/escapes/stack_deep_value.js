// a value nested too deeply
// ends: value note depth
let x = 1; for (let i = 0; i < 1e5; i++) x = [x]; return x;
