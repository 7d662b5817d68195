// bigint shift
// ends: error RangeError
return (1n << 2n ** 62n) > 0n;
