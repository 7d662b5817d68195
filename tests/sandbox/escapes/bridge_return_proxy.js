// a Proxy array of endless length
// ends: error
return new Proxy([], { get: (t, k) => k === "length" ? 2 ** 53 - 1 : 1 });
