// arguments nested too deeply
// ends: error LimitError limit.depth
let x = 1; for (let i = 0; i < 5000; i++) x = [x]; await demo.sink({ x }); return 1;
