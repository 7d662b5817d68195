// getter calls backend
// ends: error TypeError
const o = { get a() { return demo.echo({ inner: 1 }); } }; return { o, p: await demo.echo(o) };
