// Promise.all over calls with then overwritten in between
// ends: value 15
const all = Promise.all(Array.from({ length: 15 }, (_, n) => demo.echo({ n })));
Promise.prototype.then = () => { throw new Error("then"); };
return (await all).length;
