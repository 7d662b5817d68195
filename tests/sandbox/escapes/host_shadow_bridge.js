// names of the bridge
// ends: value []
return Object.getOwnPropertyNames(globalThis).filter((n) => /^(begin|run|deliver|collect|fire|outcome|summary|describe|rejected|own|values)$/.test(n));
