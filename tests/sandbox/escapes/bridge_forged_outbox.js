// setters that catch what the bridge writes: only the engine's own JSON.stringify lets one see its argument
// ends: value [1,0]
let foreign = 0; const args = { a: 1 };
const trap = { set(v) { if (v !== args) foreign++; }, get() { return undefined; }, configurable: true };
const keys = [0, 1, 2, "id", "resolve", "calls"];
for (const k of keys) { Object.defineProperty(Object.prototype, k, trap); Object.defineProperty(Array.prototype, k, trap); }
const r = await demo.echo(args);
for (const k of keys) { delete Object.prototype[k]; delete Array.prototype[k]; }
return [r.a, foreign];
