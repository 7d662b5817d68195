// out of memory is caught and memory allocated again
// ends: error TimeoutError limit.cpu
for (;;) { try { const a = []; for (;;) a.push(new Array(1e4).fill(1)); } catch {} }
