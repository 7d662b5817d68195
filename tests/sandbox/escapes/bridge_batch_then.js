// then overwritten while a batch is open
// ends: value 105
const all = Array.from({ length: 15 }, (_, n) => demo.echo({ n }));
Promise.prototype.then = function () { throw new Error("then"); };
let sum = 0; for (const p of all) sum += (await p).n;
return sum;
