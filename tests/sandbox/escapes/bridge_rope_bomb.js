// rope bomb
// ends: error MemoryError limit.memory
let s = "ab"; for (let i = 0; i < 40; i++) s += s; return s.length;
