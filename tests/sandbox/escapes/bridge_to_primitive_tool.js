// keys and names made by conversions
// ends: value [{"a":1},1]
let n = 0; const k = { [Symbol.toPrimitive]() { n++; return "echo"; } }; return [await demo[k]({ a: 1 }), n];
