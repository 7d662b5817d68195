// console lines without end
// ends: error TimeoutError limit.cpu
for (;;) console.log("x".repeat(1000));
