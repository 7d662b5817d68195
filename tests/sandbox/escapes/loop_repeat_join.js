// many large joins
// ends: error TimeoutError limit.cpu
let n = 0; for (;;) n += new Array(1e5).join("x").length;
