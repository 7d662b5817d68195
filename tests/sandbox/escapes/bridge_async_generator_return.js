// an async generator that never lets go
// ends: value 1
async function* g() { try { yield 1; } finally { await new Promise(() => {}); } } for await (const x of g()) break; return 1;
