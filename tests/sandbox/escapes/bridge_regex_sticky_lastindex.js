// regex sticky lastindex
// ends: error TypeError
const r = /a/y; Object.defineProperty(r, "lastIndex", { value: 2 ** 31, writable: false }); return [r.test("a".repeat(10))];
