// a comparison that never ends
// ends: error TimeoutError limit.cpu
[1, 2].sort(() => { for (;;) {} });
