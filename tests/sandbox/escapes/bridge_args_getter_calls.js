// args getter calls
// ends: value 400
let n = 0; const args = { get x() { n++; if (n < 200) demo.echo(args); return n; } }; const r = await demo.echo(args); return n;
