"""Hints about names: a backend hidden by a variable, a name that is not declared, a host that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gatemini.discovery.types.identifiers import JS_WORDS, UNREACHABLE_MEMBERS, is_plain_name
from gatemini.explain.error_facts import SEARCHED as SEARCHED_CHARS
from gatemini.explain.error_facts import ErrorFacts, HintContext, is_declared
from gatemini.explain.not_available import HOST, MEMBERS, MODULES, OF_PROCESS, SEARCHED, SUBSTITUTES
from gatemini.explain.source_lines import line_at, place
from gatemini.text.escape import js_string
from gatemini.text.shorten import CLOSEST, closest, listed, shorten

WATCHED: Final = frozenset((*HOST, *SUBSTITUTES))
"""Names whose reading fails with the whole explanation, so that code which catches the error has it too."""

_NOT_DEFINED = re.compile(r"^'?([\w$]+)'? is not defined$")
_NOT_READY = re.compile(r"^'?([\w$]+)'? is not initialized$")
_MAIN = re.compile(r"\bexport\s+default\s+(?:async\s+)?(?:function\s*[\w$]*\s*)?\(\s*([^)]+)\)")
_TORN = re.compile(r"(?<![\w$.])([\w$]+)\.([\w$]+(?:[-.][\w$]+)+)")
_MEMBER_CALL = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)\s*(?:\.\s*([\w$]+)|\[\s*['\"]([^'\"]+)['\"]\s*\])")
_IMPORTED = re.compile(r"""^(?:cannot import|could not load module) ['"](.+?)['"]""")
_REQUIRED = re.compile(r"""\brequire\s*\(\s*['"`]([^'"`]+)['"`]""")
_HANDLE = re.compile(r"res_[0-9a-z]{4,}")
_CALLS: Final = frozenset({"call", "calltool", "invoke", "run", "execute"})
"""Names that code guesses for a function which calls a tool, in small letters without underscores."""
_SANDBOX: Final = "Code runs in a sandbox without network, files and processes"


def joined_lines(error: ErrorFacts, context: HintContext) -> str | None:
    """A line without `;` that goes on in the next one, because that begins with `(` or `[`."""
    if error.line is None or error.name not in ("TypeError", "ReferenceError"):
        return None
    for number in (error.line, error.line - 1):
        one, two = (line_at(error.source, n) if n else None for n in (number, number + 1))
        if one and two and re.search(r"[\w$)\]]\s*$", one) and (first := two.lstrip()[:1]) in ("(", "["):
            return f"line {number} goes on in line {number + 1}, which begins with `{first}`: end line {number} with `;`"
    return None


def torn_tool(error: ErrorFacts, context: HintContext) -> str | None:
    """`desk.get-user({…})`, which JavaScript reads as `desk.get - user({…})`, and `desk.user.get({…})`."""
    if error.name not in ("ReferenceError", "TypeError"):
        return None
    for found in _TORN.finditer(error.source_line):
        backend = context.backends.get(found[1])
        if backend is not None and found[2] in context.tools(backend):
            sign = "-" if "-" in found[2] else "."
            return f"a name with {sign} goes in brackets: write `await {spelled_tool(backend, found[2], context)}({{…}})`"
    return None


def parameters_of_main(error: ErrorFacts, context: HintContext) -> str | None:
    """`export default async ({ github }) => …`: a main function that expects arguments."""
    if error.name != "TypeError" or "undefined" not in error.message:
        return None
    main = _MAIN.search(error.source[:SEARCHED_CHARS])
    expected = re.findall(r"[A-Za-z_$][\w$]*", main[1]) if main else []
    if main is None or not any(_uses(name, error.source_line) for name in expected):
        return None
    return f"the function is called without arguments: leave out `({main[1].strip()})`, backends are globals ({listed(context.backends)})"


def shadowed(error: ErrorFacts, context: HintContext) -> str | None:
    """`const exa = await exa.search()`: the variable hides the backend of the same name."""
    found = _NOT_READY.match(error.message)
    if found is not None:
        name = found[1]
        if name not in context.program.shadowed and name not in context.backends:
            return f"{name} is used before its declaration: move the declaration up"
        line = context.program.shadowed.get(name, (error.line, 0))[0]
        return (
            f"the variable {name} (line {line}) hides the backend {name}: rename the variable, "
            f"for example `const {name}Result = await {name}.…`"
        )
    if error.name not in ("TypeError", "ReferenceError"):
        return None
    for hidden in context.backends:
        if re.search(rf"(?<![\w$.]){re.escape(hidden)}\s*[.\[]", error.source_line):
            line = context.program.shadowed.get(hidden, (0, 0))[0] or _declaring_line(hidden, error.source)
            if line:
                return f"{hidden} is the variable of line {line} here, not the backend: rename the variable"
    return None


def not_available(read: Iterable[str], context: HintContext) -> dict[str, str]:
    """What the guest says of each of these names, and of `import(…)`."""
    said = {
        name: unknown_name(ErrorFacts("ReferenceError", f"{name} is not defined"), context) for name in read
    }
    modules = f"{HOST['require']}. {_SANDBOX}; {context.available}"
    return {"import": modules, **{name: text for name, text in said.items() if text}}


def unknown_name(error: ErrorFacts, context: HintContext) -> str | None:
    found = _NOT_DEFINED.match(error.message)
    if found is None:
        return None
    name = found[1]
    return (
        _keyword_argument(name, error)
        or _renamed(name, error)
        or _host(name, context, error.source_line)
        or context.not_running(name)
        or _backend_or_tool(name, error, context)
        or SUBSTITUTES.get(name)
        or _meant(name, error, context)
    )


def _meant(name: str, error: ErrorFacts, context: HintContext) -> str:
    """For a name that is neither a backend nor a tool: what it may have been meant to be."""
    used = re.search(
        rf"(?<![\w$.]){re.escape(name)}\s*(?:\.\s*([\w$]+)|\[\s*[\"']([^\"']+)[\"']\s*\])\s*(\()?",
        error.source[:SEARCHED_CHARS],
    )
    member = (used[1] or used[2]) if used else ""
    if member in context.backends or member in context.backends.values():
        spelled = context.identifier(member) or member
        return f"backends are globals: write `await {spelled}.tool({{…}})`, without {name} in front"
    if _HANDLE.fullmatch(name):
        return f'a handle is text: write it in quotes, results.load("{name}")'
    close = closest(name, {*_declared(error.source), *context.backends} - {name})
    owners = context.owners(member) if member else ()
    if owners and not any(owner.startswith(f"{context.backends.get(c)}.") for owner in owners for c in close):
        return f"there is no backend {name}; {_write(member, owners, context)}"
    if not close and _uses(f"{name}(", re.sub(r"\s+\(", "(", error.source_line)):
        tools = [tool for backend in context.backends.values() for tool in context.tools(backend)]
        meant = [owner for tool in closest(name, tools) for owner in context.owners(tool)]
        close = [_spelled_owner(owner, context) for owner in meant[:CLOSEST]]
    if close:
        return f"did you mean {listed(close)}?"
    if used and used[3]:
        return f"there is no backend {name}; {context.available}"
    return (
        f"declare {name} first; nothing is kept from one chain to the next but results; {context.available}"
    )


def _keyword_argument(name: str, error: ErrorFacts) -> str | None:
    """`demo.rows(n=3)`: arguments by name as Python writes them."""
    written = rf"[\w$\])]\(\s*(?:[\w$]+\s*=(?![=>])[^=()]*,\s*)*{re.escape(name)}\s*=\s*(?![=>])([^,()]*)"
    found = re.search(written, error.source_line)
    if found is None:
        return None
    return f"arguments have names only inside of an object: write ({{ {name}: {shorten(found[1].strip(), 30) or '…'} }})"


def _renamed(name: str, error: ErrorFacts) -> str | None:
    """`const { orders: list } = …`, and `orders` is used."""
    pattern = (
        rf"\b(?:const|let|var)\s*\{{[^{{}}=]*(?<![\w$]){re.escape(name)}\s*:\s*([A-Za-z_$][\w$]*)\s*[,}}]"
    )
    found = re.search(pattern, error.source[:SEARCHED_CHARS])
    return f"{name} is called {found[1]} in this code" if found else None


def _backend_or_tool(name: str, error: ErrorFacts, context: HintContext) -> str | None:
    """The name is a tool's bare name, or nearly a backend's."""
    if owners := context.owners(name):
        return _write(name, owners, context)
    for identifier, backend in context.backends.items():
        # `demo_add`, `mcp__gatemini__demo__add`: as clients that offer tools one by one name them
        after = re.split(rf"(?:^|_){re.escape(identifier)}_+", name)[1:]
        if after and after[-1] in context.tools(backend):
            return f"write `await {spelled_tool(backend, after[-1], context)}({{…}})`"
    folded = _folded(name)
    for identifier, backend in context.backends.items():
        # `files-eu.read()` is read as `files - eu.read()`
        torn = backend != identifier and name in re.split(r"\W", backend) and backend in error.source_line
        if torn or folded in (_folded(identifier), _folded(backend)):
            return f"the backend {backend} is called {identifier} in code: write `await {identifier}.tool({{…}})`"
    return None


def _write(tool: str, owners: Iterable[str], context: HintContext) -> str:
    owners = list(owners)
    called = [_spelled_owner(owner, context) for owner in owners[:CLOSEST]]
    if len(owners) > 1:
        return f"{tool} is a tool of several backends: write one of {listed(called)}"
    return f"{tool} is a tool of backend {owners[0].rpartition('.')[0]}: write `await {called[0]}({{…}})`"


def member_of_a_global(error: ErrorFacts, context: HintContext) -> str | None:
    """A member of something else than the author thought: `sleep.x()` for the backend `sleep_`, `results.get()`."""
    unread = error.name == "SyntaxError"  # as `default.x()` is: only reserved words can be meant
    if not unread and not (
        error.name == "TypeError" and re.search(r"not a function|cannot read property", error.message)
    ):
        return None
    for found in _MEMBER_CALL.finditer(error.source_line):
        owner, member = found[1], found[2] or found[3]
        if (unread and owner not in JS_WORDS) or is_declared(owner, error.source):
            continue
        if (taken := context.backends.get(f"{owner}_")) is not None:
            spelled = spelled_tool(taken, member, context)
            return f"{owner} is a name of JavaScript or of the sandbox; the backend {taken} is called {owner}_ in code: write `await {spelled}({{…}})`"
        if member == "then" and (name := context.backends.get(owner)) is not None:
            if member in context.tools(name):
                return f'a backend is never a promise: write `await __backends["{name}"].call("then", {{…}})` for its tool then'
            return f"{owner} is a backend, not a promise: call one of its tools, `await {owner}.tool({{…}})`"
        if owner in MEMBERS and member not in MEMBERS[owner][0].split(", "):
            if owner == "gatemini" and member.replace("_", "").lower() in _CALLS:
                return SUBSTITUTES["callTool"]
            known, also = MEMBERS[owner]
            return f"{owner} has {known}" + (f"; {also}" if also else "")
    return None


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


def _host(name: str, context: HintContext, line: str) -> str | None:
    """What is not here, and what to do instead: of `require("x")` and `process.x` as far as the line tells."""
    if name not in HOST:
        return None
    member = re.search(r"\bprocess\??\.(\w+)", line) if name == "process" else None
    if member is not None and member[1] in OF_PROCESS:
        return f"there is no process here: {OF_PROCESS[member[1]]}. {_SANDBOX}"
    required = _REQUIRED.search(line) if name == "require" else None
    instead = _instead_of(required[1] if required else name)
    return f"{HOST[name]}. {_SANDBOX}; {context.available}{instead and f'; {instead}'}"


def _spelled_owner(qualified: str, context: HintContext) -> str:
    """`backend.tool` as code writes it; the backend's own name may hold dots."""
    owner = next((n for n in context.backends.values() if qualified.startswith(f"{n}.")), None)
    owner = owner or qualified.partition(".")[0]
    return spelled_tool(owner, qualified.removeprefix(f"{owner}."), context)


def spelled_tool(backend: str, tool: str, context: HintContext) -> str:
    """A tool of a backend as code writes it."""
    if tool in UNREACHABLE_MEMBERS:
        return f'__backends["{backend}"].call("{tool}", …)'
    left = context.identifier(backend) or f'__backends["{backend}"]'
    return f"{left}.{tool}" if is_plain_name(tool) else f"{left}[{js_string(tool)}]"


def _uses(name: str, text: str) -> bool:
    ends = "" if name.endswith("(") else r"(?![\w$])"
    return re.search(rf"(?<![\w$.]){re.escape(name)}{ends}", text) is not None


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _declared(source: str) -> list[str]:
    names = re.findall(r"\b(?:const|let|var|function|class)\s+([A-Za-z_$][\w$]*)", source[:SEARCHED_CHARS])
    return list(dict.fromkeys(names))[:200]


def _declaring_line(name: str, source: str) -> int | None:
    """The line that declares a variable of this name, as far as one can see without a parse."""
    declares = rf"\b(?:const|let|var|function|class)\s+{re.escape(name)}(?![\w$])"
    found = re.search(declares, source[:SEARCHED_CHARS])
    return place(source, found.start())[0] if found else None
