// reviver context
// ends: value [{"a":1}]
JSON.parse = () => ({ forged: true }); JSON.stringify = () => "forged"; return [await demo.echo({ a: 1 })];
