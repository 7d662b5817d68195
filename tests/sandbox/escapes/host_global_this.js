// this at the top
// ends: value ["undefined",true,true]
return [typeof this, Function("return this")() === globalThis, Object.getPrototypeOf(globalThis) === Object.prototype];
