// an endless loop
// ends: error TimeoutError limit.cpu
for (;;) {}
