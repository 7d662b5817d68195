// a regular expression that multiplies the text
// ends: error MemoryError limit.memory
let s = "x"; for (;;) s = s.replace(/x/g, "$&$&$&$&$&$&$&$&");
