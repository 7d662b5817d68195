// an answer that changes the value after the end
// ends: value {"a":1}
const v = { a: 1 }; demo.echo({}).then(() => { v.a = 2; }); return v;
