"""A finding in a configuration: where, what was found, what is allowed, and the remedy.

A finding never holds a value that may be secret: `found` shows text as the file has it, and for keys that carry secrets
only its type.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gatemini.text.escape import visible

KeyPath = tuple[str | int, ...]
_SHOWN = 60
"""Characters of a found value that a message shows."""
_PRIVATE = frozenset(("env", "headers", "args", "url", "command", "secrets", "stdin", "client_secret"))
"""Keys whose values are never shown, only their type."""

NOT_BUILT: Mapping[str, str] = {
    "admin": "the dashboard is not built yet",
}
"""Keys that are planned: an error of their own, since a rule without effect would protect nothing."""
_SYNONYMS: Mapping[str, str] = {
    "type": "transport",
    "httpUrl": "url",
    "serverUrl": "url",
    "enabled": "disabled",
    "mcpServers": "backends",
    "servers": "backends",
    "environment": "env",
    "cmd": "command",
    "arguments": "args",
    "uri": "url",
    "endpoint": "url",
}
"""Other clients' words for our keys, found in our own format."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `key` is the dotted path; errors disable what they touch, warnings do not.

    `unresolved` marks a variable, input or secret that has no value: fatal under `secrets.strict`.
    """

    file: str
    line: int | None
    key: str
    found: str
    allowed: str = ""
    remedy: str = ""
    severity: Literal["error", "warning"] = "error"
    unresolved: bool = False

    def text(self) -> str:
        """`file:line: key: found (allowed: …). Remedy`."""
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        parts = [where, f"{self.key}: {self.found}" if self.key else self.found]
        text = ": ".join(parts)
        if self.allowed:
            text += f" (allowed: {self.allowed})"
        if self.remedy:
            text += f"{'' if text.endswith('?') else '.'} {self.remedy}"
        return visible(text, lines=True)

    def __str__(self) -> str:
        return self.text()

    def reason(self) -> str:
        """What a disabled backend's status says: `MISSING_ONE is not set (backends.a.env.TOKEN). Set MISSING_ONE …`."""
        allowed = f", allowed: {self.allowed}" if self.allowed else ""
        tail = f" ({self.key})" if self.key else ""
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{self.found}{allowed}{tail}{remedy}"

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "unresolved"}


def dotted(path: KeyPath) -> str:
    """`("backends", "a", "args", 1)` → `backends.a.args[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to a misspelt one, spelling style (`-`, `_`, case) aside."""
    folded: dict[str, str] = {}
    for name in known:
        folded.setdefault(_folded(name), name)
    hits = difflib.get_close_matches(_folded(word), list(folded), n=1, cutoff=0.6)
    return folded[hits[0]] if hits else None


def _folded(word: str) -> str:
    return word.replace("-", "").replace("_", "").lower()


def shown(value: object, path: KeyPath) -> str:
    """A found value for a message: short, or only its type where it may be secret."""
    names = {str(part) for part in path}
    if names & _PRIVATE or isinstance(value, dict | list):
        return {dict: "a mapping", list: "a list", str: "text", type(None): "nothing"}.get(
            type(value), f"a {type(value).__name__}"
        )
    if value is None:
        return "nothing"
    text = (
        repr(value)
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def unknown_key(name: str, known: Sequence[str]) -> tuple[str, str, str]:
    """Words for a key that the schema does not have: (found, allowed, remedy)."""
    if name in _SYNONYMS and _SYNONYMS[name] in known:
        ours = _SYNONYMS[name]
        return f"unknown key {name}, the key is {ours}", "", f"Write {ours}"
    if name in NOT_BUILT:
        return f"{name} is not supported: {NOT_BUILT[name]}", "", "Remove it"
    near = closest(name, known) or _SYNONYMS.get(closest(name, _SYNONYMS) or "")
    near = near if near in known else None
    found = f"unknown key {name}" + (f", did you mean {near}?" if near else "")
    return found, "" if near else ", ".join(sorted(known)), f"Write {near}" if near else "Remove it"


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The model at a path, through nested models and mappings of models."""
    current: type[BaseModel] | None = model
    for part in path:
        if current is None:
            return None
        if isinstance(part, int) or part not in current.model_fields:
            continue  # an entry of a mapping or list: its model is the one already found
        current = _inner_model(current.model_fields[part].annotation)
    return current


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None


_ALLOWED = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "true, false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
}
"""Kinds of pydantic's errors → what is allowed, in our words."""
_BOUND_WORDS = {
    "greater than or equal to ": "at least ",
    "less than or equal to ": "at most ",
    "greater than ": "above ",
    "less than ": "below ",
}
_BOUNDS = frozenset(("less_than_equal", "less_than", "greater_than_equal", "greater_than"))
_REMEDIES = {
    "incomplete": "Write command for a program, or url for a server",
    "ambiguous": "Keep exactly one of command, url, module or CLI tools",
}


def explain(error: ErrorDetails, model: type[BaseModel], raw: Any) -> tuple[KeyPath, str, str, str]:
    """One pydantic error in words: (key path within the model, found, allowed, remedy).

    `raw` is what the file says: where a variable was put in, its text is shown and never the value.
    """
    path = _plain_path(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        owner = model_at(model, path[:-1])
        return path, *unknown_key(str(path[-1]), written_keys(owner) if owner else ())
    if kind == "missing":
        return path, f"{path[-1]} is missing", "", f"Add {path[-1]}"
    written = _written(raw, path)
    found = f"found {shown(written if isinstance(written, str) and '$' in written else error['input'], path)}"
    message = error["msg"].removeprefix("Value error, ")
    if kind in ("incomplete", "ambiguous", "command"):
        return (
            path,
            message,
            "",
            _REMEDIES.get(kind, ""),
        )
    if kind == "string_pattern_mismatch":
        return path, found, "letters, digits, _ and -, at most 64, the first a letter or digit", ""
    if kind == "literal_error":
        return path, found, str(context.get("expected", "")).replace("'", ""), ""
    if path and path[-1] == "command" and isinstance(error["input"], list):
        return path, found, "text", "Write its first word as command and the rest as args"
    if kind in ("string_type", "path_type"):
        return path, found, "text" if kind == "string_type" else "a path", ""
    if kind == "tuple_type":
        return path, found, "a list", "Write [a, b] or one `- item` per line"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return path, found, "a mapping of keys to values", ""
    allowed = _ALLOWED.get(kind) or message.removeprefix("Input should be ")
    for words, bound in _BOUND_WORDS.items():
        allowed = allowed.replace(words, bound)
    if kind in _BOUNDS and re.search(
        "[a-z]", str(written)
    ):  # a duration: pydantic names the bound without its unit
        allowed += " s"
    return path, found, allowed[:1].lower() + allowed[1:], ""


def _written(raw: Any, path: KeyPath) -> Any:
    for part in path:
        try:
            raw = raw[part]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def written_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys a file may hold for this model: without those the loader fills itself."""
    return tuple(name for name in model.model_fields if name not in ("cli_tools", "name"))


_TAGS = frozenset(("str", "float", "int", "bool", "function-before[as_text(), str]", "function-after"))


def _plain_path(location: tuple[int | str, ...]) -> KeyPath:
    """pydantic's location without the tags of unions, and CLI tools where the file has them."""
    parts = [p for p in location if not (isinstance(p, str) and (p in _TAGS or "[" in p))]
    return tuple("tools" if p == "cli_tools" else p for p in parts)
