// a then in arguments that throws when read
// ends: value {"a":{"then":"[Throws: then]","b":1}}
return await demo.echo({ a: { get then() { throw new Error("then"); }, b: 1 } });
