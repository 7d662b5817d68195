// an iterator that throws while it is read
// ends: value {"it":"[Throws: half way]"}
return { it: (function* () { yield 1; throw new Error("half way"); })() };
