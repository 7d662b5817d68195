"""Spelling of backends and tools in a chain: identifiers, reserved words, the ready `call` expression.

The sandbox's globals, examples, hints and TypeScript declarations all use these rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType

from gatemini.text.escape import js_string, visible
from gatemini.text.utf8 import encode

COMPOSITE_BACKEND = "__composite"
"""Registry name of the configured composite tools; its global is `composite`."""


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
"""Tool names that a backend object does not have as members: `__backends["x"].call("then", …)` reaches them."""

LONGEST_NAME = 256
"""Longest tool name shown, in characters; a longer one gets a short spelling (`short_name`)."""
LONGEST_SHOWN = LONGEST_NAME // 8
"""Names up to this length are shown whole even if each of their characters has to be escaped."""
CALL_CHARS = 1_000
"""Longest `call` that spells out its parameters."""

_ASCII_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


def is_plain_name(name: str) -> bool:
    """Return whether `name` is an ASCII identifier, valid after a dot and as a property name (reserved words included)."""
    return _ASCII_NAME.match(name) is not None


def short_name(name: str) -> str:
    """Return `name` escaped; a very long one as its beginning and a digest, by which it is found again."""
    shown = visible(name)
    if len(shown) <= LONGEST_NAME:
        return shown
    digest = blake2b(encode(name), digest_size=6).hexdigest()
    return f"{shown[: LONGEST_NAME - len(digest) - 1]}~{digest}"


def member_name(tool: str) -> str:
    """Return the name of this tool's member in a chain: its own, unless it is very long."""
    return tool if len(tool) <= LONGEST_NAME else short_name(tool)


@lru_cache(maxsize=16_384)
def spoken(name: str) -> str:
    """Return a backend or qualified tool name for texts to an agent: escaped, composite tools under their global."""
    if name == COMPOSITE_BACKEND or name.startswith(f"{COMPOSITE_BACKEND}."):
        name = "composite" + name.removeprefix(COMPOSITE_BACKEND)
    return visible(name)


def identifier(name: str) -> str:
    """Replace characters that no identifier may hold by `_`, and put `_` in front of a leading digit."""
    if is_plain_name(name):
        return name
    chars = [c if c == "$" or ("a" + c).isidentifier() else "_" for c in name]
    made = "".join(chars)
    if not made:
        return "_"
    return made if made[0] == "$" or made[0].isidentifier() else "_" + made


def backend_identifier(name: str) -> str:
    """Return the global of a backend by itself: its identifier, with a `_` after reserved names."""
    if name == COMPOSITE_BACKEND:
        return "composite"
    made = identifier(name)
    return made + "_" if made in RESERVED or made.startswith("__") else made


def backend_identifiers(names: Iterable[str]) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
    """Return (identifier → the name it means, identifier → the names that share it where none owns it).

    Where several names collapse to one identifier, the one that is spelled exactly so owns it.
    """
    return _backend_identifiers(tuple(names))


@lru_cache(maxsize=16)  # every chain asks several times, for the same backends
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
    """Return the expression for each backend name: its global, else `__backends["name"]`."""
    names = list(names)
    owners, _ = backend_identifiers(names)
    by_name = {name: made for made, name in owners.items()}
    return {name: by_name.get(name) or f"__backends[{js_string(name)}]" for name in names}


def member_expression(backend: str, tool: str) -> str:
    """Return the tool as a member of the backend's expression: `exa.search`, `files_eu["get-user"]`."""
    if is_plain_name(tool):
        return f"{backend}.{tool}"
    return f"{backend}[{js_string(tool)}]"


def call_expression(
    backend_name: str, tool: str, required: Sequence[str], *, expressions: Mapping[str, str] | None = None
) -> str:
    """Return `await exa.web_search_exa({query})`, ready to paste, with the required parameters.

    Where these do not fit in `CALL_CHARS`, the call takes one object called `args`. `expressions` is
    `backend_expressions` of all backends; without it the backend is spelled by itself.
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
    """Return the variable that an example uses for a parameter: its identifier, never a reserved word."""
    made = identifier(parameter)
    return made + "_" if made in JS_WORDS else made


def property_name(name: str) -> str:
    """Return a property name for an object literal or type, quoted where it has to be."""
    return name if is_plain_name(name) and name != "__proto__" else js_string(name)


def _argument(name: str) -> str:
    variable = variable_name(name)
    # The short form makes a property even of `__proto__`; written out, that would set the prototype.
    return name if variable == name and is_plain_name(name) else f"{property_name(name)}: {variable}"
