// a sparse array of the greatest length as value
// ends: error LimitError limit.value
const a = []; a.length = 2 ** 32 - 1; return a;
