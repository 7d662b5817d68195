// an async generator that is returned
// ends: value "[AsyncGenerator]"
async function* g() { yield 1; yield await demo.echo({ a: 1 }); } return g();
