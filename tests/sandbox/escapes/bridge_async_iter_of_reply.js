// async iter of reply
// ends: value [{"n":4},4]
Object.prototype[Symbol.asyncIterator] = async function* () { for (;;) yield 1; }; let n = 0; for await (const x of await demo.echo({ a: 1 })) { if (++n > 3) break; } return [await demo.echo({ n }), n];
