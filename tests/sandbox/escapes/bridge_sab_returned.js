// sab returned
// ends: value [{},[0,0,0,0],[0,0]]
return [new SharedArrayBuffer(8), new Uint8Array(new SharedArrayBuffer(4)), new DataView(new ArrayBuffer(2))];
