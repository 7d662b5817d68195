// eval syntax bomb
// ends: error StackError limit.stack
return eval("(".repeat(200000) + ")".repeat(200000));
