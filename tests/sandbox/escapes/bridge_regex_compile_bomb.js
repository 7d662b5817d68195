// regex compile bomb
// ends: error StackError limit.stack
return new RegExp("(?:".repeat(5000) + "a" + ")*".repeat(5000)).test("b");
