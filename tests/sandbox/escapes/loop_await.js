// an endless loop that awaits
// ends: error TimeoutError limit.cpu
for (;;) await null;
