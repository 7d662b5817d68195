// a promise settled after the end
// ends: value 1
setTimeout(() => { globalThis.done = demo.echo({ late: 1 }); }, 0); return 1;
