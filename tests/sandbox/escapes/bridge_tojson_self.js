// toJSON that returns itself
// ends: value {"a":1}
const o = { a: 1, toJSON() { return this; } }; return o;
