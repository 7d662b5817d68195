// a finalizer that makes calls
// ends: value 1
const r = new FinalizationRegistry(() => { demo.echo({ late: 1 }); }); (() => { for (let i = 0; i < 1000; i++) r.register({}, i); })();
await demo.echo({});
return 1;
