// transfer during return
// ends: value {"a":1,"x":"[Throws: ArrayBuffer is detached]","u":[]}
const b = new ArrayBuffer(1 << 16); const u = new Uint8Array(b).fill(1); return { a: 1, get x() { b.transfer(0); return 2; }, u };
