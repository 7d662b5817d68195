// catching everything for ever
// ends: error TimeoutError limit.cpu
for (;;) { try { for (;;) {} } catch {} }
