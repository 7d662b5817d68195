// a revoked Proxy everywhere
// ends: value note Throws
const { proxy, revoke } = Proxy.revocable({}, {}); revoke();
console.log(proxy);
let e1;
try { await demo.echo({ proxy }); } catch (e) { e1 = e.name; } return { proxy, e1 };
