// a thrown revoked Proxy
// ends: error Error
const { proxy, revoke } = Proxy.revocable(new Error("x"), {}); revoke(); throw proxy;
