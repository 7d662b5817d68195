// a string longer than strings may be
// ends: error MemoryError limit.memory
return "x".repeat(2 ** 30);
