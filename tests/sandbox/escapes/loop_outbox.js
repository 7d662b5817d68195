// a million calls without await
// ends: error TimeoutError limit.cpu
for (let n = 0; n < 1e6; n++) demo.echo({ n });
return 1;
