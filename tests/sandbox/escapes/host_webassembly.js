// WebAssembly
// ends: value ["undefined","undefined"]
return [typeof WebAssembly, typeof globalThis.WebAssembly];
