// a rejection with a thenable
// ends: error Error
await Promise.reject({ then(ok) { ok(1); } });
