// memory that is caught and asked for again
// ends: error TimeoutError limit.cpu
for (;;) { try { const a = []; for (;;) a.push(new Array(1e4).fill(1)); } catch {} }
