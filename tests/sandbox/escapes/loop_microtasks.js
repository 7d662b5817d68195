// microtasks that make microtasks
// ends: error TimeoutError limit.cpu
const again = () => queueMicrotask(again); again(); await new Promise(() => {});
