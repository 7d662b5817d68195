// an array that shrinks while it is walked
// ends: any
const a = new Array(1000).fill(1); return a.map((_, i) => { a.length = 10; return i; }).length;
