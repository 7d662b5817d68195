// a getter that reads itself
// ends: error StackError limit.stack
const o = { get x() { return this.x; } }; return o.x;
