// one large buffer
// ends: error
return new ArrayBuffer(2 ** 31 - 1);
