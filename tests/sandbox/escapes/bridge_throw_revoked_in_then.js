// throw revoked in then
// ends: error Error
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); await Promise.reject(proxy);
