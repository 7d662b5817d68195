// causes without end
// ends: error Error
let e = new Error("first"); for (let i = 0; i < 1e4; i++) e = new Error("x", { cause: e }); throw e;
