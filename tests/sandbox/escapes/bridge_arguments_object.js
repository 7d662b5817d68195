// arguments object
// ends: value {"0":1,"1":[],"2":"[backend demo]"}
return (function () { return arguments; })(1, new Proxy([], {}), demo);
