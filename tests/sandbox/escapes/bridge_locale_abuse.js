// locale abuse
// ends: value ["1e+21",-1,"01/01/1970, 12:00:00 AM"]
return [(1e21).toLocaleString("xx-".repeat(1000)), "a".localeCompare("b", "\ud800"), new Date(0).toLocaleString({ toString() { throw 1; } })];
