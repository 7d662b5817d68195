// promises resolved many times
// ends: value [0,1,2,3,4]
const all = await Promise.all(Array.from({ length: 5 }, (_, n) => { const p = demo.echo({ n }); p.then(() => p).then(() => p);
return new Promise((r) => { p.then(r); p.then(r); r(p); r(9); }); }));
return all.map((x) => x.n);
