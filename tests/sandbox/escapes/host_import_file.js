// importing files of the host
// ends: value ["ReferenceError","ReferenceError"]
const out = []; for (const m of ["/etc/passwd", "./x.js"]) { try { await import(m); out.push("in"); } catch (e) { out.push(e.name); } } return out;
