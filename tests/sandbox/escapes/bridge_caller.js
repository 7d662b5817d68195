// reaching for the caller
// ends: value ["TypeError","TypeError"]
const out = []; for (const k of ["caller", "arguments"]) { try { (function f() { return f[k]; })(); } catch (e) { out.push(e.name); } } return out;
