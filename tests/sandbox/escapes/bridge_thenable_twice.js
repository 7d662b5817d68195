// a thenable that answers twice and throws
// ends: value 1
return await { then(ok, no) { ok(1); no(new Error("later")); ok(2); throw new Error("last"); } };
