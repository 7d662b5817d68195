// formats that run code
// ends: value 1
console.log("%s %d %o %O %j %c", { toString() { for (let i = 0; i < 3; i++);
throw 1; } }, { valueOf() { throw 2; } }, 3, 4, { toJSON() { throw 5; } }, "x");
return 1;
