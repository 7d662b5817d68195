// a generator in arguments
// ends: value {"g":[1,{"a":2}]}
return await demo.echo({ g: (function* () { yield 1; yield { a: 2 }; })() });
