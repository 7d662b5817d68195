// pad bomb
// ends: error MemoryError limit.memory
return "x".padStart(2 ** 29, "ab").length;
