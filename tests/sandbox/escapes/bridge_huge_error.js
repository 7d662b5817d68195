// an error whose message and stack are huge
// ends: error Error
const e = new Error("m".repeat(4e6)); e.stack = "s".repeat(4e6); throw e;
