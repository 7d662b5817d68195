// templates in templates
// ends: error StackError limit.stack
let s = "1"; for (let i = 0; i < 5000; i++) s = "`${" + s + "}`"; return eval(s);
