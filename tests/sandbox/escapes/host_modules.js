// importing the engine's own modules
// ends: value ["ReferenceError","ReferenceError","ReferenceError","ReferenceError"]
const out = []; for (const m of ["qjs:std", "qjs:os", "std", "node:fs"]) { try { await import(m); out.push("in"); } catch (e) { out.push(e.name); } } return out;
