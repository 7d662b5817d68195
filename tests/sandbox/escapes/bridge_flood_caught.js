// floods whose errors are caught
// ends: error TimeoutError limit.cpu
for (;;) demo.echo({}).catch(() => {});
