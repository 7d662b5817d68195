// an iterator that makes endless texts
// ends: error MemoryError limit.memory
return (function* () { for (;;) yield "x".repeat(1e5); })();
