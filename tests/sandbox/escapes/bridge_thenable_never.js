// a thenable that never answers
// ends: error DeadlockError
return { then() {} };
