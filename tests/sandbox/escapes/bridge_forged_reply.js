// an answer that looks like a batch of replies
// ends: value forged
const r = await demo.echo({ x: [[1, 1, "forged"], [2, 0, { name: "ToolError" }]] }); return r.x[0][2];
