"""What the calls of a chain brought, found by the names the code gave it: so that a hint can say what a value is.

Follows `const x = await backend.tool(…)` and what is destructured from it, nothing else: a guess would mislead more
than silence. Pure. Above: misread.py, failure.py. Below: facts.py, jsvalue.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from gatemini.chain.facts import HintContext, shortened
from gatemini.chain.jsvalue import NotJson, dumps, loads_exact
from gatemini.model import Json

MOST_READ: Final = 1 << 20
"""Characters of a result that are parsed for a hint; of a longer one only its kind is told."""

LOOKED_AT: Final = 100_000
"""Characters of the code in which a declaration is looked for."""

THE_RESULT: Final = "the result"
"""The path of a value that the code gave no name."""

MOST_STEPS: Final = 4
"""Names that lead to one another."""

SHOWN_KEYS: Final = 8
SHOWN_TEXT: Final = 40

HELD: Final = {"dry_run": True}
"""What a dry run answers in a call's place."""

_STEP = re.compile(r"\.([\w$]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_CALL = r"=\s*\(*\s*await\s+([\w$]+)(?:\.([\w$]+)|\[\s*(?:'([^']+)'|\"([^\"]+)\")\s*\])\s*\("


_EACH = "map|filter|forEach|find|findIndex|some|every|flatMap"


@dataclass(frozen=True, slots=True)
class Long:
    """A result too long to be looked into; `text` is its first character."""

    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """The value at `path`, the longest part of what was asked for that is there; `rest` is what was not."""

    path: str
    value: Any
    rest: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return f"{self.path} is {described(self.value)}"


def find(path: str, source: str, context: HintContext, steps: int = MOST_STEPS) -> Found | None:
    """What `path` (`r.data[0].id`) leads to in the code's results; None where that is not certain."""
    root = re.match(r"[A-Za-z_$][\w$]*", path)
    start = _of_name(root[0], source, context, steps) if root else None
    if root is None or start is None:
        return None
    if start.rest:
        return start
    value, reached, at = start.value, root[0], root.end()
    while step := _STEP.match(path, at):
        name = next(group for group in step.groups() if group is not None)
        inner = _member(value, name)
        if inner is None:
            missing = [next(g for g in s.groups() if g is not None) for s in _STEP.finditer(path, at)]
            return Found(reached, value, tuple(missing))
        value, reached, at = inner, path[: step.end()], step.end()
    return Found(reached, value) if at == len(path) else None


def described(value: Any) -> str:
    """A value in a few words: `an array of 3 objects {id, name}`, `text ("line one…")`."""
    if isinstance(value, Long):
        return {"[": "an array", "{": "an object"}.get(value.text, "text")
    if value == HELD:
        return "{dry_run: true}, which stands for a call the dry run held"
    if isinstance(value, dict):
        return f"an object {_keys(value)}" if value else "an empty object"
    if isinstance(value, str):
        return f"text ({dumps(shortened(value, SHOWN_TEXT))})" if value else "an empty text"
    if not isinstance(value, list):
        return dumps(value)
    if not value:
        return "an empty array"
    first = value[0]
    what = f"objects {_keys(first)}" if isinstance(first, dict) and first else "items"
    if isinstance(first, str):
        what = "texts"
    return f"an array of {len(value)} {what if len(value) > 1 else what.replace('s', '', 1)}"


def _keys(value: Json) -> str:
    names = [str(name) for name in value]
    return "{" + ", ".join(names[:SHOWN_KEYS]) + (", …}" if len(names) > SHOWN_KEYS else "}")


def _member(value: Any, name: str) -> Any:
    """The member as code would read it; None for null and for what is not there."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list | str) and name == "length":
        return len(value)
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    return None


def _of_name(name: str, source: str, context: HintContext, steps: int) -> Found | None:
    """The result that was given this name, where one declaration alone does so."""
    code, word = source[:LOOKED_AT], re.escape(name)
    declared = re.findall(rf"\b(?:const|let|var|function|class)\s+{word}(?![\w$])", code)
    direct = re.findall(rf"\b(?:const|let|var)\s+{word}\s*(?::[^=;\n]+)?{_CALL}", code)
    if len(declared) == 1 and len(direct) == 1:
        value = _result(direct[0], context)
        return None if value is None else Found(name, value)
    items = re.findall(rf"\bfor\s*\(\s*(?:const|let|var)\s+{word}\s+of\s+([\w$.]+)\s*\)", code)
    items += re.findall(rf"(?<![\w$.])([\w$.]+)\??\.(?:{_EACH})\(\s*(?:async\s*)?\(?\s*{word}(?![\w$])", code)
    if len(items) == 1 and len(declared) <= 1 and steps:
        of = find(items[0], source, context, steps - 1) if items[0].partition(".")[0] != name else None
        many = of is not None and not of.rest and isinstance(of.value, list) and of.value
        return Found(name, of.value[0]) if of is not None and many else None
    return None if declared or items else _taken_apart(name, word, code, context)


def _taken_apart(name: str, word: str, code: str, context: HintContext) -> Found | None:
    """`const { items } = await backend.tool(…)`."""
    pattern = (
        rf"\b(?:const|let|var)\s*\{{([^{{}}]*(?<![\w$.]){word}(?![\w$])[^{{}}]*)\}}\s*(?::[^=;\n]+)?{_CALL}"
    )
    apart = re.findall(pattern, code)
    whole = _result(apart[0][1:], context) if len(apart) == 1 else None
    if whole is None:
        return None
    for member in apart[0][0].split(","):
        key, _, renamed = (part.strip() for part in member.partition(":"))
        if (renamed or key) == name:
            value = _member(whole, key)
            return Found(THE_RESULT, whole, (key,)) if value is None else Found(name, value)
    return None


def _result(call: tuple[str, ...], context: HintContext) -> Any:
    backend = context.backends.get(call[0])
    text = None if backend is None else context.brought(backend, next(filter(None, call[1:4]), ""))
    if not text:
        return None
    if len(text) > MOST_READ:
        return Long(text[0])
    try:
        return loads_exact(text)
    except NotJson:
        return None


def lists_in(value: Any) -> list[str]:
    """The members of an object that hold an array."""
    return [str(k) for k, v in value.items() if isinstance(v, list)] if isinstance(value, dict) else []


__all__ = ["LOOKED_AT", "THE_RESULT", "Found", "Long", "described", "find", "lists_in"]
