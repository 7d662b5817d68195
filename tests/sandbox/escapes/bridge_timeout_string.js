// timeout string
// ends: value TypeError
try { setTimeout("globalThis.x = 1", 0); await sleep(1); return typeof x; } catch (e) { return e.name; }
