// a reply with __proto__ as key
// ends: value [1,true]
const r = JSON.parse(JSON.stringify(await demo.echo(JSON.parse('{"__proto__": {"x": 1}}')))); return [r.__proto__.x, ({}).x === undefined];
