// a deep pattern
// ends: error
return new RegExp("(?:".repeat(1e5) + ")".repeat(1e5)).test("");
