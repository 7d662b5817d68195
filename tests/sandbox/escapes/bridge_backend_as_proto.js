// backend as proto
// ends: error TypeError
const o = Object.create(demo); o.x = 1; const r = { ...o }; return [typeof o.echo, await o.echo({ a: 1 }), r];
