// toString that makes text of itself
// ends: error StackError limit.stack
const o = { toString() { return `${o}`; } }; return `${o}`;
