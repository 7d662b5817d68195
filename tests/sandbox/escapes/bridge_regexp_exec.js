// regexp exec
// ends: value 100
RegExp.prototype.exec = function () { throw new Error("exec"); }; RegExp.prototype.test = () => { throw 1; }; const r = await demo.echo({ a: "x".repeat(100) }); console.log(/a/, r); return r.a.length;
