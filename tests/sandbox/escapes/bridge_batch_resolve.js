// resolve functions that throw
// ends: value ["then","then"]
const both = [demo.echo({ n: 1 }), demo.echo({ n: 2 })], out = [];
Object.defineProperty(Object.prototype, "then", { configurable: true, get() { throw new Error("then"); } });
for (const p of both) { try { out.push(await p); } catch (e) { out.push(e.message); } }
delete Object.prototype.then; return out;
