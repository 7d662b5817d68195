// promise subclass const
// ends: error Error
class P extends Promise { constructor(x) { super(x); throw new Error("made"); } } Object.defineProperty(Promise.prototype, "constructor", { get() { return P; } }); return [await demo.echo({ a: 1 })];
