// timers without end
// ends: error LimitError limit.calls
for (;;) setTimeout(() => {}, 1e6);
