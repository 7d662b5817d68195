"""Hints about names: a backend hidden by a variable, a name nobody declared, the host that is not there.

Rules of the ladder in hints.py, which is above; below: facts.py.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.chain.facts import CLOSEST, ErrorFacts, HintContext, close_to, listed
from gatemini.chain.places import place

_NOT_DEFINED = re.compile(r"^'?([\w$]+)'? is not defined$")
_NOT_READY = re.compile(
    r"^'?([\w$]+)'? is not initialized$|^Cannot access '([\w$]+)' before initialization|^lexical variable '?([\w$]+)'? is not"
)
_ABSENT: Final = {
    "require": "there is no require/module system here",
    "module": "there is no module object here; use `return`",
    "exports": "there is no exports object here; use `return`",
    "fetch": "there is no network here",
    "XMLHttpRequest": "there is no network here",
    "WebSocket": "there is no network here",
    "axios": "there is no network here",
    "process": "there is no process here; secrets belong in the backend's config",
    "Deno": "there is no Deno here; secrets belong in the backend's config",
    "Bun": "there is no Bun here; secrets belong in the backend's config",
    "fs": "there are no files here",
    "path": "there are no files here",
    "os": "there is no operating system here",
    "open": "there are no files here",
    "__dirname": "there are no files here",
    "__filename": "there are no files here",
}
_WANTED: Final = {
    "require": "read file",
    "module": "read file",
    "fetch": "fetch url",
    "XMLHttpRequest": "fetch url",
    "WebSocket": "fetch url",
    "axios": "fetch url",
    "fs": "read file",
    "open": "read file",
    "path": "read file",
}
_SEARCH_NAMED: Final = "find a tool with search_tools("
_SUBSTITUTES: Final = {
    "Intl": "there is no Intl here: format numbers and dates by hand (toLocaleString is plain, time zone UTC)",
    "window": "there is no browser here; global names are on globalThis",
    "document": "there is no browser here and no DOM: work on the text itself",
    "localStorage": "nothing is stored between chains but results: results.save(value)",
    "global": "write globalThis instead of global",
    "print": "write console.log(…)",
    "None": "write null instead of None",
    "True": "write true instead of True",
    "False": "write false instead of False",
    "nil": "write null instead of nil",
    "len": "write list.length",
    "str": "write String(value)",
    "dict": "write an object literal: { key: value }",
    "lambda": "write (x) => …",
    "args": "only composite tools have args; write the values into the code",
    "ToolError": "compare the name instead: `e.name === 'ToolError'`",
    "setImmediate": "write setTimeout(f, 0)",
    "lodash": "there are no packages here: use the language's own array methods",
    "_": "there are no packages here: use the language's own array methods",
    "z": "there are no packages here: check values with plain code",
}


def shadowed(error: ErrorFacts, context: HintContext) -> str | None:
    """`const exa = await exa.search()`: the variable hides the backend of the same name."""
    found = _NOT_READY.match(error.message)
    name = next((group for group in found.groups() if group), None) if found else None
    if name is not None and (name in context.program.shadowed or name in context.backends):
        line = context.program.shadowed.get(name, (error.line, 0))[0]
        return (
            f"the variable {name} (line {line}) hides the backend {name}: rename the variable, "
            f"for example `const {name}Result = await {name}.…`"
        )
    if name is not None:
        return f"{name} is used before its declaration: move the declaration up"
    if error.name not in ("TypeError", "ReferenceError"):
        return None
    text = error.source_line
    for hidden in context.backends:
        if re.search(rf"(?<![\w$.]){re.escape(hidden)}\s*[.\[]", text):
            line = context.program.shadowed.get(hidden, (0, 0))[0] or _declaring_line(hidden, error.source)
            if line:
                return f"{hidden} is the variable of line {line} here, not the backend: rename the variable"
    return None


def unknown_name(error: ErrorFacts, context: HintContext) -> str | None:
    found = _NOT_DEFINED.match(error.message)
    if found is None:
        return None
    name = found[1]
    if name in _ABSENT:
        return _sandbox_is(_ABSENT[name], name, context)
    if said := _as_backend_or_tool(name, error, context):
        return said
    if name in _SUBSTITUTES:
        return _SUBSTITUTES[name]
    close = close_to(name, [*_declared(error.source), *context.backends])
    if close:
        return f"did you mean {listed(close)}?"
    used = re.search(
        rf"(?<![\w$.]){re.escape(name)}\s*(?:\.\s*[\w$]+|\[[^\]]*\])\s*\(", error.source[:100_000]
    )
    if used:
        return f"there is no backend {name}; {context.available}"
    return (
        f"declare {name} first; nothing is kept from one chain to the next but results; {context.available}"
    )


def _as_backend_or_tool(name: str, error: ErrorFacts, context: HintContext) -> str | None:
    """The name is a tool's bare name, or nearly a backend's."""
    if owners := context.owners(name):
        called = [_spelled(owner, context) for owner in owners[:CLOSEST]]
        backend = owners[0].rpartition(".")[0]
        if len(owners) == 1:
            return f"{name} is a tool of backend {backend}: write `await {called[0]}({{…}})`"
        return f"{name} is a tool of several backends: write one of {listed(called)}"
    folded = re.sub(r"[\W_]", "", name).lower()
    for identifier, backend in context.backends.items():
        if (
            re.sub(r"[\W_]", "", identifier).lower() == folded
            or re.sub(r"[\W_]", "", backend).lower() == folded
        ):
            return f"the backend {backend} is called {identifier} in code: write `await {identifier}.tool({{…}})`"
    line = error.source_line
    for identifier, backend in context.backends.items():
        # `files-eu.read()` is read as `files - eu.read()`
        if backend != identifier and name in re.split(r"\W", backend) and backend in line:
            return f"the backend {backend} is called {identifier} in code"
    return None


def host_access(error: ErrorFacts, context: HintContext) -> str | None:
    """The guest's own refusals of `require`, `fetch` and the like, and of imports."""
    if _SEARCH_NAMED in error.message:  # the message says the rest already
        found = re.search(r"there is no (\w+)|(\w+) does not exist", error.message)
        wanted = _WANTED.get((found[1] or found[2]) if found else "")
        return f"search_tools('{wanted}') finds a tool for it" if wanted else None
    if re.search(r"could not load module", error.message):
        return _sandbox_is("there is no require/module system here", "require", context)
    return None


def _sandbox_is(what: str, name: str, context: HintContext) -> str:
    wanted = _WANTED.get(name, "what you need")
    return f"{what}. Code runs in a sandbox without network, files and processes; {context.available}; find a tool with search_tools('{wanted}')"


def _spelled(qualified: str, context: HintContext) -> str:
    """`backend.tool` as code writes it."""
    backend, _, tool = qualified.rpartition(".")
    identifier = next((known for known, name in context.backends.items() if name == backend), None)
    left = identifier or f'__backends["{backend}"]'
    return f"{left}.{tool}" if re.fullmatch(r"[A-Za-z_$][\w$]*", tool) else f'{left}["{tool}"]'


def _declared(source: str) -> list[str]:
    names = re.findall(r"\b(?:const|let|var|function|class)\s+([A-Za-z_$][\w$]*)", source[:100_000])
    return list(dict.fromkeys(names))[:200]


def _declaring_line(name: str, source: str) -> int | None:
    """The line that declares a variable of this name, as far as one can see without a parse."""
    found = re.search(rf"\b(?:const|let|var|function|class)\s+{re.escape(name)}(?![\w$])", source[:100_000])
    return place(source, found.start())[0] if found else None
