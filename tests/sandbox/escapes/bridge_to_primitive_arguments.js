// conversions in arguments that throw
// ends: value {"a":{},"key":1}
return await demo.echo({ a: { [Symbol.toPrimitive]() { throw 1; } }, [{ [Symbol.toPrimitive]: () => "key" }]: 1 });
