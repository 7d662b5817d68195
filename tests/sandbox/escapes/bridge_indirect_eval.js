// indirect eval
// ends: value ["object",true,1]
return [(0, eval)("typeof demo"), new Function("return this === globalThis")(), await (new (Object.getPrototypeOf(async function () {}).constructor)("return (await demo.echo({ a: 1 })).a"))()];
