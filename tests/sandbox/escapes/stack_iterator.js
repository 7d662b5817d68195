// iterators that wrap iterators
// ends: error StackError limit.stack
let it = [1, 2, 3].values(); for (let i = 0; i < 1e5; i++) it = it.map((x) => x); return [...it];
