// a getter on the returned value that never ends
// ends: error TimeoutError limit.cpu
return { get x() { for (;;) {} } };
