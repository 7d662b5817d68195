// timers that make timers
// ends: error TimeoutError limit.cpu
const again = () => setTimeout(again, 0); again(); await new Promise(() => {});
