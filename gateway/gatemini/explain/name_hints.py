"""Hints about names: a backend hidden by a variable, a name nobody declared, the host that is not there.

Rules of the ladder in hints.py, which is above; below: absent.py, facts.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gatemini.chain.absent import HOST, MEMBERS, MODULES, OF_PROCESS, SEARCHED, SUBSTITUTES
from gatemini.chain.facts import CLOSEST, ErrorFacts, HintContext, close_to, listed, shortened
from gatemini.chain.places import place
from gatemini.types.identifiers import JS_WORDS, UNREACHABLE_MEMBERS, is_plain_name
from gatemini.types.wording import js_string

_NOT_DEFINED = re.compile(r"^'?([\w$]+)'? is not defined$")
_NOT_READY = re.compile(
    r"^'?([\w$]+)'? is not initialized$|^Cannot access '([\w$]+)' before initialization|^lexical variable '?([\w$]+)'? is not"
)


_MAIN = re.compile(r"\bexport\s+default\s+(?:async\s+)?(?:function\s*[\w$]*\s*)?\(\s*([^)]+)\)")


def given_to_main(error: ErrorFacts, context: HintContext) -> str | None:
    """`export default async ({ github }) => …`: a main function that expects what nobody gives it."""
    if error.name != "TypeError" or not re.search(r"undefined", error.message):
        return None
    main = _MAIN.search(error.source[:100_000])
    if main is None:
        return None
    expected = re.findall(r"[A-Za-z_$][\w$]*", main[1])
    if not any(re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", error.source_line) for name in expected):
        return None
    return f"the function is called without arguments: leave out `({main[1].strip()})`, backends are globals ({listed(context.backends)})"


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


WATCHED: Final = frozenset((*HOST, *SUBSTITUTES))
"""Names whose reading fails with the whole explanation, so that code which catches the error has it too."""


def absent_names(read: Iterable[str], context: HintContext) -> dict[str, str]:
    """What the guest says of each of these names, and of `import(…)`."""
    said = {
        name: unknown_name(ErrorFacts("ReferenceError", f"{name} is not defined"), context) for name in read
    }
    return {"import": _no_modules(context), **{name: text for name, text in said.items() if text}}


def unknown_name(error: ErrorFacts, context: HintContext) -> str | None:
    found = _NOT_DEFINED.match(error.message)
    if found is None:
        return None
    name = found[1]
    if named := _keyword_arguments(name, error):
        return named
    if name in HOST:
        return _sandbox_is(HOST[name], name, context, error)
    if said := context.lost(name) or _as_backend_or_tool(name, error, context):
        return said
    if name in SUBSTITUTES:
        return SUBSTITUTES[name]
    used = re.search(
        rf"(?<![\w$.]){re.escape(name)}\s*(?:\.\s*([\w$]+)|\[\s*[\"']([^\"']+)[\"']\s*\])\s*(\()?",
        error.source[:100_000],
    )
    member = (used[1] or used[2]) if used else ""
    if member in context.backends or member in context.backends.values():
        spelled = next(known for known, name in context.backends.items() if member in (known, name))
        return f"backends are globals: write `await {spelled}.tool({{…}})`, without {name} in front"
    close = close_to(name, {*_declared(error.source), *context.backends} - {name})
    owners = context.owners(member) if member else ()
    if owners and not any(owner.startswith(f"{context.backends.get(c)}.") for owner in owners for c in close):
        called = [_spelled(owner, context) for owner in owners[:CLOSEST]]
        write = f"write `await {called[0]}({{…}})`" if len(called) == 1 else f"write one of {listed(called)}"
        return f"there is no backend {name}; {member} is a tool of {'another' if len(called) == 1 else 'others'}: {write}"
    if not close and re.search(rf"(?<![\w$.]){re.escape(name)}\s*\(", error.source_line):
        tools = [tool for backend in context.backends.values() for tool in context.tools(backend)]
        meant = [owner for tool in close_to(name, tools) for owner in context.owners(tool)]
        close = [_spelled(owner, context) for owner in meant[:CLOSEST]]
    if close:
        return f"did you mean {listed(close)}?"
    if used and used[3]:
        return f"there is no backend {name}; {context.available}"
    return (
        f"declare {name} first; nothing is kept from one chain to the next but results; {context.available}"
    )


def _keyword_arguments(name: str, error: ErrorFacts) -> str | None:
    """`demo.rows(n=3)`: arguments by name as Python writes them."""
    written = rf"[\w$\])]\(\s*(?:[\w$]+\s*=(?![=>])[^=()]*,\s*)*{re.escape(name)}\s*=\s*(?![=>])([^,()]*)"
    found = re.search(written, error.source_line)
    if found is None:
        return None
    return f"arguments have names only inside of an object: write ({{ {name}: {shortened(found[1].strip(), 30) or '…'} }})"


def _as_backend_or_tool(name: str, error: ErrorFacts, context: HintContext) -> str | None:
    """The name is a tool's bare name, or nearly a backend's."""
    if owners := context.owners(name):
        called = [_spelled(owner, context) for owner in owners[:CLOSEST]]
        backend = owners[0].rpartition(".")[0]
        if len(owners) == 1:
            return f"{name} is a tool of backend {backend}: write `await {called[0]}({{…}})`"
        return f"{name} is a tool of several backends: write one of {listed(called)}"
    for identifier, backend in context.backends.items():
        # `demo_add`, `mcp__gatemini__demo__add`: as clients that offer tools one by one name them
        after = re.split(rf"(?:^|_){re.escape(identifier)}_+", name)[1:]
        if after and after[-1] in context.tools(backend):
            return f"write `await {_spelled(f'{backend}.{after[-1]}', context, backend)}({{…}})`"
    folded = re.sub(r"[\W_]", "", name).lower()
    for identifier, backend in context.backends.items():
        if (
            re.sub(r"[\W_]", "", identifier).lower() == folded
            or re.sub(r"[\W_]", "", backend).lower() == folded
        ):
            if backend == identifier:
                return f"the backend is written {identifier}, not {name}: `await {identifier}.tool({{…}})`"
            return f"the backend {backend} is called {identifier} in code: write `await {identifier}.tool({{…}})`"
    line = error.source_line
    for identifier, backend in context.backends.items():
        # `files-eu.read()` is read as `files - eu.read()`
        if backend != identifier and name in re.split(r"\W", backend) and backend in line:
            return f"the backend {backend} is called {identifier} in code"
    return None


def host_access(error: ErrorFacts, context: HintContext) -> str | None:
    """`globalThis.fetch(…)`: the host again, under another name."""
    found = re.search(r"\b(?:globalThis|self|window)\.([\w$]+)", error.source_line)
    if error.name == "TypeError" and found is not None and found[1] in HOST:
        return _sandbox_is(HOST[found[1]], found[1], context)
    return None


_MEMBER_CALL = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)\s*(?:\.\s*([\w$]+)|\[\s*['\"]([^'\"]+)['\"]\s*\])")


def wrong_owner(error: ErrorFacts, context: HintContext) -> str | None:
    """A member of something else than the code's author thought: `sleep.x()` for the backend `sleep_`, `demo.then()`."""
    unread = error.name == "SyntaxError"  # as `default.x()` is: only reserved words can be meant
    if not unread and not (
        error.name == "TypeError" and re.search(r"not a function|cannot read property", error.message)
    ):
        return None
    for found in _MEMBER_CALL.finditer(error.source_line):
        owner, member = found[1], found[2] or found[3]
        taken = next((name for known, name in context.backends.items() if known == f"{owner}_"), None)
        if unread and owner not in JS_WORDS:
            continue
        if taken is not None:
            spelled = _spelled(f"{taken}.{member}", context, taken)
            return f"{owner} is a name of JavaScript or of the sandbox; the backend {taken} is called {owner}_ in code: write `await {spelled}({{…}})`"
        if member == "then" and owner in context.backends:
            name = context.backends[owner]
            if member in context.tools(name):
                return f'a backend is never a promise: write `await __backends["{name}"].call("then", {{…}})` for its tool then'
            return f"{owner} is a backend, not a promise: call one of its tools, `await {owner}.tool({{…}})`"
        if owner in MEMBERS and member not in MEMBERS[owner][0].split(", "):
            known, also = MEMBERS[owner]
            return f"{owner} has {known}" + (f"; {also}" if also else "")
    return None


_IMPORTED = re.compile(r"""^(?:cannot import|could not load module) ['"](.+?)['"]""")
_REQUIRED = re.compile(r"""\brequire\s*\(\s*['"`]([^'"`]+)['"`]""")


def imported(error: ErrorFacts, context: HintContext) -> str | None:
    """A module that is not there: what to write in its place, where that is known."""
    found = _IMPORTED.match(error.message)
    instead = _instead_of(found[1]) if found else ""
    return f"{error.given.rstrip('.')}; {instead}" if instead and error.given else None


def _instead_of(module: str) -> str:
    """What to use instead of a module: `node:fs/promises` is fs."""
    name = module.removeprefix("node:")
    name = name if name in MODULES or name in SEARCHED else name.partition("/")[0]
    if name in MODULES:
        return MODULES[name]
    return f"find a tool with search_tools('{SEARCHED[name]}')" if name in SEARCHED else ""


def _no_modules(context: HintContext) -> str:
    return f"{HOST['require']}. {_SANDBOX}; {context.available}"


_SANDBOX: Final = "Code runs in a sandbox without network, files and processes"


def _sandbox_is(what: str, name: str, context: HintContext, error: ErrorFacts | None = None) -> str:
    """What is not here, and what to do instead: of `require("x")` and `process.x` as far as the line tells."""
    line = "" if error is None else error.source_line
    required = _REQUIRED.search(line) if name == "require" else None
    member = re.search(r"\bprocess\??\.(\w+)", line) if name == "process" else None
    if member is not None and member[1] in OF_PROCESS:
        return f"there is no process here: {OF_PROCESS[member[1]]}. {_SANDBOX}"
    instead = _instead_of(required[1] if required else name)
    return f"{what}. {_SANDBOX}; {context.available}{instead and f'; {instead}'}"


def _spelled(qualified: str, context: HintContext, backend: str | None = None) -> str:
    """`backend.tool` as code writes it; the backend's own name may hold dots."""
    if backend is None:
        backend = next((n for n in context.backends.values() if qualified.startswith(f"{n}.")), None)
    backend = backend or qualified.partition(".")[0]
    tool = qualified.removeprefix(f"{backend}.")
    identifier = next((known for known, name in context.backends.items() if name == backend), None)
    left = identifier or f'__backends["{backend}"]'
    if tool in UNREACHABLE_MEMBERS:
        return f'__backends["{backend}"].call("{tool}", …)'
    return f"{left}.{tool}" if is_plain_name(tool) else f"{left}[{js_string(tool)}]"


def _declared(source: str) -> list[str]:
    names = re.findall(r"\b(?:const|let|var|function|class)\s+([A-Za-z_$][\w$]*)", source[:100_000])
    return list(dict.fromkeys(names))[:200]


def _declaring_line(name: str, source: str) -> int | None:
    """The line that declares a variable of this name, as far as one can see without a parse."""
    found = re.search(rf"\b(?:const|let|var|function|class)\s+{re.escape(name)}(?![\w$])", source[:100_000])
    return place(source, found.start())[0] if found else None
