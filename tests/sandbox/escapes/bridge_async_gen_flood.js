// async gen flood
// ends: value 100
async function* g() { for (;;) yield demo.echo({ a: 1 }); } let n = 0; for await (const x of g()) if (++n === 100) break; return n;
