// name is symbol
// ends: error Error
const e = new Error("m"); e.name = Symbol("s"); e.message = Symbol("t"); throw e;
