// destructure deep
// ends: error SyntaxError
return eval("let " + "[".repeat(20000) + "a" + "]".repeat(20000) + " = []");
