// a backend as a thenable
// ends: value ["undefined",true,true]
return [typeof demo.then, await Promise.resolve(demo) === demo, Object.getOwnPropertyDescriptor(demo, "then") === undefined];
