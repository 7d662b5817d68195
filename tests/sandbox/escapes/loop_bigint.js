// a power too large to compute
// ends: error
return 7n ** 7n ** 9n;
