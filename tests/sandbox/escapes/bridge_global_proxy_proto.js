// global proxy proto
// ends: value 1
Object.setPrototypeOf(globalThis, new Proxy({}, { has() { return true; }, get(t, k) { throw new Error("g " + String(k)); } })); return 1;
