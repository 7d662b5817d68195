// waiting without end
// ends: error DeadlockError
await new Promise(() => {});
