// a delay that runs code
// ends: error Error
let n = 0; await sleep({ valueOf() { n++; return 1; } }); setTimeout(() => {}, { valueOf() { throw new Error("delay"); } }); return n;
