// tool name huge
// ends: error TypeError
return await demo["t".repeat(3e6)]({});
