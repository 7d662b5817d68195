// Type-checks modules under --strict with the npm compiler: `[{name, text}]` on stdin → `[{name, line, message}]`.
// One program for all of them, so that the standard library is parsed once.
"use strict";
const path = require("node:path");
const ts = require(path.join(process.argv[2], "typescript"));

const modules = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const texts = new Map(modules.map((m) => [`/virtual/${m.name}.ts`, m.text]));
const options = {
  strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext,
  lib: ["lib.es2022.d.ts"], types: [], skipLibCheck: true, moduleDetection: ts.ModuleDetectionKind.Force,
};
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.getSourceFile = (name, ...rest) =>
  texts.has(name) ? ts.createSourceFile(name, texts.get(name), rest[0], true) : getSourceFile.call(host, name, ...rest);
host.fileExists = (name) => texts.has(name) || fileExists.call(host, name);
host.readFile = (name) => texts.get(name) ?? readFile.call(host, name);
const program = ts.createProgram([...texts.keys()], options, host);
const found = ts.getPreEmitDiagnostics(program).map((d) => ({
  name: d.file ? path.basename(d.file.fileName, ".ts") : "",
  line: d.file ? d.file.getLineAndCharacterOfPosition(d.start).line + 1 : 0,
  message: ts.flattenDiagnosticMessageText(d.messageText, " "),
}));
process.stdout.write(JSON.stringify(found));
