// a catastrophic regular expression
// ends: error TimeoutError limit.cpu
return /(a+)+$/.test("a".repeat(40) + "!");
