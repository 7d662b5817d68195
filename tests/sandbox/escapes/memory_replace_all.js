// a replacement that multiplies the text
// ends: error MemoryError limit.memory
let s = "x"; for (;;) s = s.replaceAll("x", "xxxxxxxxxxxxxxxx");
