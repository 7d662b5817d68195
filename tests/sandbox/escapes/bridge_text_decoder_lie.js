// text decoder lie
// ends: error Error
return new TextDecoder().decode({ byteLength: 2 ** 31, buffer: null, get length() { throw 1; } });
