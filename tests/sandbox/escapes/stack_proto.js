// a long prototype chain
// ends: value 1
let o = null; for (let i = 0; i < 1e4; i++) o = Object.create(o); return o.nothing === undefined ? 1 : 0;
