// a loop that goes on in finally
// ends: error TimeoutError limit.cpu
try { for (;;) {} } finally { for (;;) {} }
