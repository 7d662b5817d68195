// an error larger than the guest
// ends: error MemoryError limit.memory
const a = []; try { for (;;) a.push("x".repeat(1e6) + a.length); } catch { throw new Error(a.join("")); }
