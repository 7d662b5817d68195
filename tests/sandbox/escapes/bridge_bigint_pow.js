// bigint pow
// ends: error RangeError
return (2n ** (2n ** 40n)).toString().length;
