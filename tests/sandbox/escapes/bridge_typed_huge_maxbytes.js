// typed huge maxbytes
// ends: error RangeError
return new ArrayBuffer(8, { maxByteLength: 2 ** 40 }).maxByteLength;
