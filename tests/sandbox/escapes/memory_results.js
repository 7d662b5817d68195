// results kept without end
// ends: error MemoryError limit.memory
const a = []; const s = "x".repeat(1e6); for (let i = 0; i < 19; i++) a.push((await demo.echo({ s })).s + i, (s + i).split("")); return a.length;
