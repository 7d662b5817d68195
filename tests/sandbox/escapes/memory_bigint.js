// numbers that double their digits
// ends: error RangeError
let n = 3n; for (;;) n *= n;
