// date proxy
// ends: value ["[Throws: not a Date object]","[Throws: not a Date object]","1970-01-01T00:00:00.000Z"]
return [new Proxy(new Date(0), {}), Object.create(Date.prototype), new (class extends Date { toISOString() { for (;;); } })(0)];
