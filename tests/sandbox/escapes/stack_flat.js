// flattening a deep array
// ends: any
let x = []; for (let i = 0; i < 1e5; i++) x = [x]; return x.flat(Infinity).length;
