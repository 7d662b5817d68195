// a thrown error whose message never ends
// ends: error TimeoutError limit.cpu
throw { get message() { for (;;) {} } };
