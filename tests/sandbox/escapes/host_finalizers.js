// finalizers that never end
// ends: error TimeoutError limit.cpu
const r = new FinalizationRegistry(() => { for (;;) {} }); r.register({}, 1); return 1;
