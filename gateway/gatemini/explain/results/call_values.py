"""What the calls of a chain gave, found by the names the code gave it, so that a hint can say what a value is.

Follows `const x = await backend.tool(…)`, what is taken from it by name, loops and callbacks over it, nothing else: a
guess would mislead more than silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson

from gatemini.explain.error_facts import SEARCHED, HintContext
from gatemini.text.shorten import shorten

MOST_READ: Final = 1 << 20
"""Characters of a result that are parsed for a hint; of a longer one only the kind is said."""

THE_RESULT: Final = "the result"
"""The path of a value that the code gave no name."""

MOST_STEPS: Final = 4
"""Names that lead to one another."""

MOST_ARGUMENTS: Final = 4_000
"""Characters of a call's arguments behind which its end is looked for."""

SHOWN_KEYS: Final = 8
MIXED_ITEMS: Final = 4
"""An array of several kinds, as a text and an image beside it, is described item by item if it has at most so many."""
SHOWN_TEXT: Final = 40
LINES_READ: Final = 20
"""Lines of a text that are read to see whether each is JSON."""

HELD: Final = {"dry_run": True}
"""What a dry run answers in a call's place."""

PATH: Final = r"[A-Za-z_$][\w$]*(?:\??\.[\w$]+|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*"
"""A plain path such as `r.data[0].id`."""
_STEP = re.compile(r"\??\.([\w$]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_CALL = r"=\s*\(*\s*await\s+([\w$]+)(?:\.([\w$]+)|\[\s*(?:'([^']+)'|\"([^\"]+)\")\s*\])\s*\("
_AFTER_CALL = re.compile(r"\s*\)*((?:\??\.[\w$]+|\[\d+\])*)\s*(?:!|as\s[^;\n]*)?\)*\s*(?:;|,|\n|$)")
_NESTED = re.compile(r"[()]|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`")
_EACH = "map|filter|forEach|find|findIndex|some|every|flatMap"
_PYTHON_CALL = re.compile(r"[\[({]+(?:[^\[({]*[,:] ?)?(?:datetime\.|Decimal\(|UUID\(|np\.|b')")
_PYTHON = re.compile(r"[\[({]+\s*(?:'|\d+\s*[,:]|None\b|True\b|False\b)")


@dataclass(frozen=True, slots=True)
class Long:
    """A result too long to be looked into; `text` is its first character."""

    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """The value at `path`, the longest part of the wanted path that is there; `rest` are the names that are not."""

    path: str
    value: Any
    rest: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path} is {described(self.value)}"


def find(path: str, source: str, context: HintContext, steps: int = MOST_STEPS) -> Found | None:
    """What a path leads to in the results of the chain's calls; None where that is not certain."""
    root = re.match(r"[A-Za-z_$][\w$]*", path)
    start = _of_name(root[0], source[:SEARCHED], context, steps) if root else None
    if root is None or start is None or start.rest:
        return start
    value, reached, at = start.value, root[0], root.end()
    while step := _STEP.match(path, at):
        inner = _member(value, _name(step))
        if inner is None:
            return Found(reached, value, tuple(_name(rest) for rest in _STEP.finditer(path, at)))
        value, reached, at = inner, path[: step.end()], step.end()
    return Found(reached, value) if at == len(path) else None


def _name(step: re.Match[str]) -> str:
    return next(group for group in step.groups() if group is not None)


def _of_name(name: str, code: str, context: HintContext, steps: int) -> Found | None:
    """The value that was given this name, where one declaration alone does so."""
    word = re.escape(name)
    declared = re.findall(rf"\b(?:const|let|var|function|class)\s+{word}(?![\w$])", code)
    assigned = rf"\b(?:const|let|var)\s+{word}\s*(?::[^=;\n]+)?"
    direct = list(re.finditer(assigned + _CALL, code))
    if len(declared) == 1 and len(direct) == 1:
        return _assigned(name, direct[0], code, context)
    items = re.findall(rf"\bfor\s*\(\s*(?:const|let|var)\s+{word}\s+of\s+([\w$.]+)\s*\)", code)
    items += re.findall(rf"(?<![\w$.])([\w$.]+)\??\.(?:{_EACH})\(\s*(?:async\s*)?\(?\s*{word}(?![\w$])", code)
    if len(items) == 1 and len(declared) <= 1:
        of = _other(items[0], name, code, context, steps)
        return Found(name, of.value[0]) if of and isinstance(of.value, list) and of.value else None
    same = re.findall(rf"{assigned}\s*=\s*({PATH})\s*(?:;|\n|$)", code)
    if len(declared) == 1 and len(same) == 1:
        of = _other(same[0], name, code, context, steps)
        return Found(name, of.value) if of else None
    return None if declared or items else _taken_apart(name, word, code, context)


def _assigned(name: str, call: re.Match[str], code: str, context: HintContext) -> Found | None:
    """The value of `name = await backend.tool(…)`, or of what is taken from that by plain members."""
    value = _result(call.groups(), context)
    after = _AFTER_CALL.match(code, _closing(code, call.end() - 1) + 1)
    if value is None or after is None:
        return None
    steps = [_name(step) for step in _STEP.finditer(after[1])]
    for at, step in enumerate(steps):
        inner = _member(value, step)
        if inner is None:
            return Found(THE_RESULT, value, tuple(steps[at:]))
        value = inner
    return Found(name, value)


def awaited(expression: str, context: HintContext) -> Found | None:
    """The text, or the object, that `await backend.tool(…)` gives, as `answer`."""
    call = re.match(_CALL, f"={expression}")
    value = _result(call.groups(), context) if call else None
    return Found("answer", value) if isinstance(value, str | dict) else None


def _closing(code: str, opening: int) -> int:
    """Where the parenthesis is that closes the one at `opening`, or some place behind which nothing follows."""
    depth = 0
    for part in _NESTED.finditer(code, opening, opening + MOST_ARGUMENTS):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if not depth:
            return part.start()
    return len(code)


def _other(path: str, name: str, code: str, context: HintContext, steps: int) -> Found | None:
    """The value at the path of another name, if all of it is there."""
    if not steps or path.partition(".")[0] == name:
        return None
    found = find(path, code, context, steps - 1)
    return None if found is None or found.rest else found


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
    text = None if backend is None else context.last_result(backend, next(filter(None, call[1:4]), ""))
    if not text:
        return None
    if len(text) > MOST_READ:
        return Long(text[0])
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _member(value: Any, name: str) -> Any:
    """The member as code would read it; None for null and for what is not there."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list | str) and name == "length":
        return len(value)
    if isinstance(value, list | str) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    return None


def described(value: Any) -> str:
    """A value in a few words: `an array of 3 objects {id, name}`, `text ("line one...")`."""
    if isinstance(value, Long):
        return {"[": "an array", "{": "an object"}.get(value.text, "text")
    if value == HELD:
        return "{dry_run: true}, the answer of a dry run to a call it held"
    if isinstance(value, dict):
        return f"an object {keys_of(value)}" if value else "an empty object"
    if isinstance(value, str):
        kind = "one character of text" if len(value) == 1 else "text"
        return f"{kind} ({quoted(value, SHOWN_TEXT)})" if value else "an empty text"
    if not isinstance(value, list):
        return json.dumps(value)
    if not value:
        return "an empty array"
    first = value[0]
    if len({type(item) for item in value[:SHOWN_KEYS]}) > 1:
        if len(value) <= MIXED_ITEMS and any(isinstance(item, dict) for item in value):
            return f"an array [{', '.join(_kind(item) for item in value)}]"
        first = None  # of several kinds
    what = "text" if isinstance(first, str) else "object" if isinstance(first, dict) and first else "item"
    plural = "s" if len(value) > 1 else ""
    return f"an array of {len(value)} {what}{plural}" + (f" {keys_of(first)}" if what == "object" else "")


def _kind(item: Any) -> str:
    if isinstance(item, dict):
        return f"object {keys_of(item)}"
    return "text" if isinstance(item, str) else "array" if isinstance(item, list) else json.dumps(item)


def keys_of(names: Collection[Any], most: int = SHOWN_KEYS) -> str:
    """The keys of an object, `{a, b, …}`."""
    shown = ", ".join(str(name) for name in islice(names, most))
    return f"{{{shown}{', …' if len(names) > most else ''}}}"


def quoted(text: str, most: int = SHOWN_TEXT) -> str:
    """The beginning of a text as JSON writes it."""
    return json.dumps(shorten(text, most), ensure_ascii=False)


def lists_in(value: Any) -> list[str]:
    """The members of an object that hold an array."""
    return [str(k) for k, v in value.items() if isinstance(v, list)] if isinstance(value, dict) else []


def how_to_read(found: Found) -> str:
    """How to get rows or members out of a result that is text, or an object with one text to read; else ""."""
    path, text, where = found.path, found.value, ""
    if isinstance(text, dict):
        texts = {key: value for key, value in text.items() if isinstance(value, str)}
        if len(text) > 1:
            texts = {key: value for key, value in texts.items() if _written(value)[0]}
        if len(texts) != 1:
            return ""
        key, text = next(iter(texts.items()))
        path = key if path == THE_RESULT else f"{path}.{key}"
        where = f"{path} is text"
    if not isinstance(text, str):
        return ""
    what, how = _written(text)
    path = "(…)" if path == THE_RESULT else path
    said = f"it holds {what}: {how.format(path)}" if what else ""
    if not what and "\n" in text:
        said = f'take it apart, for example `{path}.split("\\n")`'
    return ": ".join(filter(None, (where, said))) if said else ""


def _written(text: str) -> tuple[str, str]:
    """What notation a text is in and how to read it, with {0} for its path; empty where it is none."""
    if len(text) > MOST_READ:
        return "", ""
    bare = text.strip()
    if bare.startswith(("{", "[", '"')) and _is_json(bare):
        return "JSON", "use JSON.parse({0})"
    lines = bare.splitlines()
    if len(lines) > 1 and all(line[:1] in ("{", "[") and _is_json(line) for line in lines[:LINES_READ]):
        return "JSON in each line", 'use {0}.trim().split("\\n").map((line) => JSON.parse(line))'
    if _PYTHON_CALL.match(bare):
        return (
            "Python objects (Decimal(…), datetime(…)), not JSON",
            "ask the tool for plain numbers and text (CAST in SQL)",
        )
    if _PYTHON.match(bare):
        return "a Python literal (single quotes, None), not JSON", "ask the tool for JSON"
    begin, end = min(filter(lambda at: at >= 0, map(bare.find, "[{")), default=-1), max(map(bare.rfind, "]}"))
    most_of_it = end - begin > len(bare) // 2 or bare.startswith("```")
    if 0 <= begin < end and most_of_it and _is_json(bare[begin : end + 1]):
        first, last = bare[begin], bare[end]
        return "JSON with other text around it", (
            f'use JSON.parse({{0}}.slice({{0}}.indexOf("{first}"), {{0}}.lastIndexOf("{last}") + 1))'.replace(
                '"{"', '"{{"'
            ).replace('"}"', '"}}"')
        )
    return "", ""


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
