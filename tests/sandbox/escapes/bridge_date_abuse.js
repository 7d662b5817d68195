// date abuse
// ends: value ["1970-01-01T00:00:00.000Z",null,"+275760-09-13T00:00:00.000Z","1938-04-24T22:13:20.000Z"]
Object.defineProperty(Date.prototype, Symbol.toPrimitive, { value() { throw 1; } }); Date.prototype.toISOString = () => { throw 2; }; Date.prototype.getTime = () => { throw 3; }; Date.now = () => { throw 4; }; return [new Date(0), new Date(NaN), new Date(8.64e15), new Date(-1e12)];
