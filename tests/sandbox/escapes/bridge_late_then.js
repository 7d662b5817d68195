// a getter on then that is set while a call is open
// ends: value {"n":1}
const open = demo.echo({ n: 1 });
Object.defineProperty(Promise.prototype, "then", { get() { throw new TypeError("then"); } });
return await open;
