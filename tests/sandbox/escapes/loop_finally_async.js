// a finally that never ends after a cut
// ends: error TimeoutError limit.cpu
try { await demo.echo({}); for (;;) {} } finally { for (;;) { await null; } }
