// thenables in thenables for ever
// ends: error TimeoutError limit.cpu
const make = () => ({ then(ok) { ok(make()); } }); return make();
