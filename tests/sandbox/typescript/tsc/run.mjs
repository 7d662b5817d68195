// Reads [{id, ours, source}] on stdin; for each program runs our JavaScript and what the TypeScript compiler makes of
// the same source, both under this Node, and writes [{id, ours, theirs}] with a JSON value, "threw Name" or "rejected".
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import vm from "node:vm";

const require = createRequire(process.argv[2] + "/");
const ts = require("typescript");

const shown = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}n` : v === undefined ? "undefined" : v));

async function outcome(script) {
  try {
    const context = vm.createContext({ console: { log() {} } });
    const main = vm.runInContext(script, context, { timeout: 2000 });
    return shown(await main()) ?? "undefined";
  } catch (error) {
    return `threw ${error?.name ?? typeof error}`;
  }
}

// A whole program of one file and no library: what is emitted does not depend on types that are not found.
function compiled(source) {
  const file = ts.createSourceFile("chain.ts", `async function __body() {\n${source}\n}`, ts.ScriptTarget.ES2022, true);
  let js = "";
  const host = {
    getSourceFile: (name) => (name === "chain.ts" ? file : undefined),
    writeFile: (_, text) => { js = text; },
    getDefaultLibFileName: () => "lib.d.ts",
    getCurrentDirectory: () => "/",
    getCanonicalFileName: (name) => name,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => "\n",
    fileExists: (name) => name === "chain.ts",
    readFile: () => undefined,
  };
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, alwaysStrict: true, noLib: true, noResolve: true, types: [] };
  const program = ts.createProgram(["chain.ts"], options, host);
  // Grammar this parser leaves to its checker: a line break before `=>`, await where it may not stand.
  const grammar = program.getSemanticDiagnostics(file).filter((d) => [1200, 1308].includes(d.code));
  const errors = [...program.getSyntacticDiagnostics(file), ...grammar];
  if (errors.length) return { rejected: `${ts.flattenDiagnosticMessageText(errors[0].messageText, "\n")} at ${file.text.slice(errors[0].start - 40, errors[0].start)}^${file.text.slice(errors[0].start).slice(0, 20)}` };
  program.emit();
  return { js };
}

const programs = JSON.parse(readFileSync(0, "utf8"));
const results = [];
for (const { id, ours, source } of programs) {
  const theirs = compiled(source);
  results.push({
    id,
    ours: ours === null ? "rejected" : await outcome(ours),
    theirs: theirs.rejected !== undefined ? "rejected" : await outcome(`(function(){${theirs.js}\nreturn __body})()`),
    why: theirs.rejected ?? "",
    js: theirs.js ?? "",
  });
}
process.stdout.write(JSON.stringify(results));
