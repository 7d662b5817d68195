// import.meta
// ends: value SyntaxError
try { return typeof eval("import.meta"); } catch (e) { return e.name; }
