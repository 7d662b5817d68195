// tool name odd
// ends: value ["ok","ok","ok","ok","ok","ok","ok","ok","ok","ok","ok"]
const r = []; for (const n of ["__proto__", "constructor", "then", "", "\0", "\ud800", "a.b", " ", "toString", "call", "prototype"]) { try { await __backends.demo.call(n, {}); r.push("ok"); } catch (e) { r.push(e.name); } } return r;
