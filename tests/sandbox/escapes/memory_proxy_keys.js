// a Proxy with ever more keys
// ends: error MemoryError limit.memory
return new Proxy({}, { ownKeys() { const k = []; for (let i = 0; ; i++) k.push("k" + i); } });
