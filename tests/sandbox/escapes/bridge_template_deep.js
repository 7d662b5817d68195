// template deep
// ends: error StackError limit.stack
return eval("`${".repeat(5000) + "1" + "}`".repeat(5000));
