// import meta eval
// ends: value SyntaxError
try { return eval("import.meta"); } catch (e) { return e.name; }
