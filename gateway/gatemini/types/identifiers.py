"""How backends and tools are spelled in a chain: identifiers, reserved words, the ready `call` expression.

One rule for everybody who shows or resolves a spelling (spec 2.2 "Names"): the sandbox's globals, examples,
hints and TypeScript all take it from here. Above: registry, discovery, `types/typescript.py`, the chain's
start message. Below: `wording.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

from gatemini.types.wording import js_string, visible

COMPOSITE_BACKEND = "__composite"
"""Registry name of the configured composite tools; its global is `composite` (spec 2.5)."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


JS_WORDS: frozenset[str] = _words(
    "arguments async await break case catch class const continue debugger default delete do else enum eval export "
    "extends false finally for function if implements import in instanceof interface let new null of package "
    "private protected public return static super switch this throw true try typeof undefined var void while "
    "with yield"
)
_STANDARD_GLOBALS = _words(
    "AbortController AbortSignal AggregateError Array ArrayBuffer AsyncFunction Atomics BigInt BigInt64Array "
    "BigUint64Array Blob Boolean Buffer DOMException DataView Date Deno Error EvalError Event EventTarget "
    "FinalizationRegistry File Float16Array Float32Array Float64Array FormData Function Headers Infinity "
    "InternalError Int16Array Int32Array Int8Array Intl Iterator JSON Map Math NaN Navigator Number Object "
    "Promise Proxy RangeError ReferenceError Reflect RegExp Request Response Set SharedArrayBuffer String "
    "SuppressedError Symbol SyntaxError TextDecoder TextEncoder TypeError URIError URL URLSearchParams "
    "Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly WebSocket "
    "XMLHttpRequest any atob boolean btoa clearImmediate clearInterval clearTimeout console crypto "
    "decodeURI decodeURIComponent encodeURI encodeURIComponent escape exports fetch gc global globalThis "
    "isFinite isNaN module never number object parseFloat parseInt performance print process "
    "queueMicrotask require self setImmediate setInterval setTimeout std string structuredClone symbol unescape "
    "unknown window"
)
_OURS = frozenset(("ToolError", "args", "gatemini", "main", "results", "sleep"))
RESERVED: frozenset[str] = JS_WORDS | _STANDARD_GLOBALS | _OURS
"""A backend spelled like one of these gets a trailing `_`: it would shadow the language or the sandbox."""

UNREACHABLE_MEMBERS: frozenset[str] = _words(
    "__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ __proto__ call constructor hasOwnProperty "
    "inspect isPrototypeOf propertyIsEnumerable then toJSON toLocaleString toString valueOf"
)
"""Tool names a backend object must not answer to as a member: `__backends["x"].call("then", …)` reaches them."""

LONGEST_NAME = 256
"""Characters of a tool's name that are shown; a longer one gets a short spelling (`short_name`)."""
LONGEST_SHOWN = LONGEST_NAME // 8
"""Names up to this are shown whole even if each of their characters has to be escaped."""
CALL_CHARS = 1_000
"""Longest `call` that spells out its parameters."""

_ASCII_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


def is_plain_name(name: str) -> bool:
    """An ASCII identifier, safe after a dot and as a property name (reserved words included)."""
    return _ASCII_NAME.match(name) is not None


def short_name(name: str) -> str:
    """`name` as it is shown: escaped, and a very long one as its beginning and a digest, which finds it again."""
    shown = visible(name)
    if len(shown) <= LONGEST_NAME:
        return shown
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{shown[: LONGEST_NAME - len(digest) - 1]}~{digest}"


def member_name(tool: str) -> str:
    """The name that a chain's member of this tool has: its own, unless it is very long."""
    return tool if len(tool) <= LONGEST_NAME else short_name(tool)


@lru_cache(maxsize=16_384)
def spoken(name: str) -> str:
    """A backend or qualified tool name as texts for an agent show it: composite tools under their global."""
    if name == COMPOSITE_BACKEND or name.startswith(f"{COMPOSITE_BACKEND}."):
        return "composite" + name.removeprefix(COMPOSITE_BACKEND)
    return name


def identifier(name: str) -> str:
    """`name` with all that no identifier may hold as `_`, and `_` in front of a leading digit."""
    if is_plain_name(name):
        return name
    chars = [c if c == "$" or ("a" + c).isidentifier() else "_" for c in name]
    made = "".join(chars)
    if not made:
        return "_"
    return made if made[0] == "$" or made[0].isidentifier() else "_" + made


def backend_identifier(name: str) -> str:
    """The global of a backend, looked at alone: its identifier, out of the way of reserved names."""
    if name == COMPOSITE_BACKEND:
        return "composite"
    made = identifier(name)
    return made + "_" if made in RESERVED or made.startswith("__") else made


def backend_identifiers(names: Iterable[str]) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
    """(identifier → the name it stands for, identifier → the names that share it and none owns).

    Where several names collapse to one identifier, the one spelled exactly so wins.
    """
    return _backend_identifiers(tuple(names))


@lru_cache(maxsize=16)  # asked several times by every chain, for the same backends
def _backend_identifiers(
    names: tuple[str, ...],
) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
    sharing: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        sharing.setdefault(backend_identifier(name), []).append(name)
    owners: dict[str, str] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    for made, sharers in sharing.items():
        if len(sharers) == 1:
            owners[made] = sharers[0]
        elif made in sharers:
            owners[made] = made
        else:
            ambiguous[made] = tuple(sorted(sharers))
    return MappingProxyType(owners), MappingProxyType(ambiguous)


def backend_expressions(names: Iterable[str]) -> dict[str, str]:
    """For each backend name the expression that reaches it: its global, else `__backends["name"]`."""
    names = list(names)
    owners, _ = backend_identifiers(names)
    by_name = {name: made for made, name in owners.items()}
    return {name: by_name.get(name) or f"__backends[{js_string(name)}]" for name in names}


def member_expression(backend: str, tool: str) -> str:
    """`exa.search`, `files_eu["get-user"]`: the tool as a member of the backend's expression."""
    if is_plain_name(tool):
        return f"{backend}.{tool}"
    return f"{backend}[{js_string(tool)}]"


def call_expression(
    backend_name: str, tool: str, required: Sequence[str], *, expressions: Mapping[str, str] | None = None
) -> str:
    """`await exa.web_search_exa({query})`: ready to paste, with the required parameters.

    Where these would not fit in `CALL_CHARS`, the call takes one object called `args`. `expressions` is `backend_expressions` of all backends there are; without it the backend is taken alone.
    """
    backend = (expressions or {}).get(backend_name) or backend_identifier(backend_name)
    arguments = "{" + ", ".join(_argument(name) for name in dict.fromkeys(required)) + "}"
    if len(arguments) > CALL_CHARS:
        arguments = "args"
    tool = member_name(tool)
    if tool in UNREACHABLE_MEMBERS:
        return f"await __backends[{js_string(backend_name)}].call({js_string(tool)}, {arguments})"
    return f"await {member_expression(backend, tool)}({arguments})"


def variable_name(parameter: str) -> str:
    """The variable an example uses for a parameter: its identifier, never a reserved word."""
    made = identifier(parameter)
    return made + "_" if made in JS_WORDS else made


def property_name(name: str) -> str:
    """A property name in an object literal or type: as it is where it may stand so, else quoted."""
    return name if is_plain_name(name) and name != "__proto__" else js_string(name)


def _argument(name: str) -> str:
    variable = variable_name(name)
    # The short form makes a property even of `__proto__`; written out, that would set the prototype.
    return name if variable == name and is_plain_name(name) else f"{property_name(name)}: {variable}"
