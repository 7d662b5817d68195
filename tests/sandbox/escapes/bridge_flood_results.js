// a flood of messages that are no calls
// ends: error LimitError limit.calls
const all = []; for (let i = 0; i < 10001; i++) all.push(results.list()); await Promise.all(all);
