// an outbox flooded with calls
// ends: error LimitError limit.calls
const all = []; for (;;) { const p = demo.echo({}); all.push(p); if (all.length > 1e3) break; } await Promise.all(all);
