// import dynamic
// ends: value ["ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError"]
const r = []; for (const m of ["fs", "qjs:std", "qjs:os", "std", "os", "data:text/javascript,export default 1", "./x.js", "file:///etc/passwd", "\0"]) { try { await import(m); r.push("loaded"); } catch (e) { r.push(e.name); } } return r;
