// with and labels in code made by Function
// ends: value 3
return new Function("o", "out: for (;;) { with (o) { if (a) break out; } } return 3;")({ a: 1 });
