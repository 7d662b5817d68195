// a regular expression that nests to the end
// ends: error StackError limit.stack
let p = "a"; for (let i = 0; i < 5e3; i++) p = "(?=" + p + ")"; return new RegExp(p).test("a");
