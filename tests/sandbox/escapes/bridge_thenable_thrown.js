// a thrown thenable
// ends: error Error
throw { then(ok) { ok(1); }, message: "thenable" };
