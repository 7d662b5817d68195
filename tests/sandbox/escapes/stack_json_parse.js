// deep JSON text
// ends: error StackError limit.stack
return JSON.parse("[".repeat(1e6));
