// lengths that lie
// ends: any
const a = []; a.length = 2 ** 32 - 1; return a.indexOf(5, 2 ** 32 - 10);
