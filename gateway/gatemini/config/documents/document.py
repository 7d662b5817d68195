"""Read one configuration file into plain values that remember their lines: YAML, JSON with comments, TOML.

A file that cannot be used as a whole (empty, cut off, too large) is one `ConfigError`; duplicate keys, unknown tags and
the like are faults with a place, so that they disable only what they touch. PyYAML's nodes are read here by the rules of
YAML 1.2, with bounded aliases: its own constructor knows neither lines nor bounds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from gatemini.config.documents.find import file_kind, read_json, read_text
from gatemini.config.documents.jsonc import MAX_DEPTH
from gatemini.config.problems import KeyPath, Problem, dotted
from gatemini.errors import ConfigError
from gatemini.text.utf8 import SURROGATE, paired

MAX_YAML_BYTES = 1 << 20
"""PyYAML needs seconds for more."""
MAX_NODES = 100_000
"""Values after aliases are expanded: a few nested aliases can grow without end."""
_CHARACTERS_OF_A_NODE = 200
"""A long text counts as several values, since every alias of it is read again."""
_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')\s*"""
_DEEP_KEY = re.compile(rf"[\s\[]*(?:{_PART}\.\s*){{{MAX_DEPTH},}}{_PART}[=\]]")
"""A dotted key of TOML that nests too deeply."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error at one place; the rest of the file can be used."""

    path: KeyPath
    line: int | None
    found: str
    remedy: str


@dataclass(slots=True)
class Document:
    """A parsed file. `lines` maps key paths to 1-based lines; `texts` has non-string scalars as written."""

    path: Path
    value: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of its nearest parent that has one."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def problem(
        self,
        path: KeyPath,
        found: str,
        allowed: str = "",
        remedy: str = "",
        *,
        severity: Literal["error", "warning"] = "error",
        unresolved: bool = False,
    ) -> Problem:
        """A finding at a key of this file."""
        line = self.line(path)
        return Problem(str(self.path), line, dotted(path), found, allowed, remedy, severity, unresolved)


def read_document(path: Path, *, absent: str = "Check the path.") -> Document:
    """Read and parse one file by its ending, or by its first character where that says nothing.

    `absent` is the hint for a file that does not exist.
    """
    text = read_text(path, absent=absent)
    kind = file_kind(path, text)
    if not text.strip():
        raise ConfigError(
            f"{path}: the file is empty", hint="Write a `backends:` section, or remove the file."
        )
    if kind == "toml":
        return _toml(path, text)
    if kind == "json":
        return _json(path, text)
    return _YamlReader(path).read(text)


def _json(path: Path, text: str) -> Document:
    parsed = read_json(path, text)
    faults = [_twice(*found) for found in parsed.duplicates]
    _must_be_mapping(path, parsed.value)
    return Document(path, parsed.value, parsed.lines, parsed.texts, faults)


def _twice(path: KeyPath, first: int, line: int) -> Fault:
    """The fault of a key that one mapping has on two lines."""
    found = f"{dotted(path[-1:])} is written twice, on lines {first} and {line}"
    return Fault(path, line, found, "Remove one of the two")


def _toml(path: Path, text: str) -> Document:
    for number, line in enumerate(text.splitlines(), 1):
        # Each dot is a level of nesting, and tomllib's time grows with their square.
        if _DEEP_KEY.match(line):
            raise ConfigError(
                f"{path}:{number}: nests deeper than {MAX_DEPTH} levels", hint="Shorten the dotted key."
            )
    try:
        value = tomllib.loads(text)
    except ValueError as error:
        known = isinstance(error, tomllib.TOMLDecodeError)
        found = f"is not valid TOML: {error}" if known else "holds a number of thousands of digits"
        raise ConfigError(f"{path}: {found}", hint="Correct the file at that place.") from None
    except RecursionError:
        raise _too_deep(path) from None
    return Document(path, value, _toml_lines(text))


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path}: is nested too deeply", hint=f"Keep within {MAX_DEPTH} levels.")


def _toml_lines(text: str) -> dict[KeyPath, int]:
    """The line of each table and of each key that begins a line; tomllib keeps no lines."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:  # inside a text of several lines nothing is a key
            quotes = "" if quotes in line else quotes
            continue
        stripped = line.strip()
        if stripped.startswith("[") and not stripped.startswith("[["):
            table = _toml_key(stripped[1:].partition("]")[0]) or table
            lines.setdefault(table, number)
        elif "=" in stripped and not stripped.startswith("#"):
            key, _, value = stripped.partition("=")
            for end in range(1, len(path := _toml_key(key)) + 1):
                lines.setdefault((*table, *path[:end]), number)
            quotes = next((mark for mark in ('"""', "'''") if value.count(mark) == 1), "")
    return lines


def _toml_key(text: str) -> KeyPath:
    """The parts of a written key; empty where the text is none, as inside a value of several lines."""
    try:
        value: Any = tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return ()
    path: list[str] = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        path.append(part)
    return tuple(path)


def _must_be_mapping(path: Path, value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    kind = {list: "a list", str: "text", type(None): "nothing but comments"}.get(
        type(value), "a single value"
    )
    raise ConfigError(
        f"{path}: holds {kind}, not a mapping of keys", hint="Start with `backends:` on the first line."
    )


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2's core scalars: `no`, `on`, `12:30` and `0755` stay what a person sees."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own class protocol


_CORE = "tag:yaml.org,2002:"
_MAX_DIGITS = 40
_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": lambda text: int(text) if len(text) < _MAX_DIGITS else text,
    "float": float,
}
"""Tag → how its text is read."""


def _resolver(tag: str, pattern: str, first: str) -> None:
    _CoreLoader.add_implicit_resolver(f"{_CORE}{tag}", re.compile(pattern), list(first))


_resolver("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolver("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_resolver("int", r"^[-+]?[0-9]+$", "-+0123456789")
_resolver("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")
_resolver("merge", r"^(?:<<)$", "<")
_CoreLoader.yaml_implicit_resolvers[""] = _CoreLoader.yaml_implicit_resolvers.pop("\0")


class _YamlReader:
    """Nodes → values with lines. Aliases are expanded within `MAX_NODES`; loops are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document = Document(path, {})
        self.nodes = 0
        self.open: set[int] = set()

    def read(self, text: str) -> Document:
        if len(text) > MAX_YAML_BYTES:
            raise ConfigError(
                f"{self.path}: is larger than {MAX_YAML_BYTES >> 20} MiB", hint="Split it with `include:`."
            )
        try:
            root = yaml.compose(text, Loader=_CoreLoader)
            value = None if root is None else self.convert(root, ())
        except yaml.MarkedYAMLError as error:
            raise self.syntax_error(error, text) from None
        except yaml.YAMLError as error:
            raise ConfigError(
                f"{self.path}: is not valid YAML: {error}", hint="Remove control characters."
            ) from None
        except (ValueError, OverflowError):  # chr() of PyYAML's scanner
            raise ConfigError(
                f"{self.path}: an escape \\U stands for no character", hint="Write \\U0010FFFF at most."
            ) from None
        except RecursionError:
            raise _too_deep(self.path) from None
        self.document.value = _must_be_mapping(self.path, value)
        return self.document

    def syntax_error(self, error: yaml.MarkedYAMLError, text: str) -> ConfigError:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        what = " ".join(part for part in (error.context, error.problem) if part)
        source = text.splitlines()[mark.line].strip() if mark and mark.line < len(text.splitlines()) else ""
        remedy = "Correct this line, or the one above it."
        if "\\t" in what:
            remedy = "Indent with spaces, never with tabs."
        elif not source:
            begun = error.context_mark.line + 1 if error.context_mark else line
            opened = f" on line {begun}" if begun != line else " above"
            remedy = f"The file ends in the middle: what is opened{opened} is never closed."
        where = f"{self.path}:{line}" if line else str(self.path)
        column = f" (column {mark.column + 1})" if mark else ""
        return ConfigError(f"{where}: is not valid YAML{column}: {what}", hint=remedy)

    def convert(self, node: yaml.Node, path: KeyPath) -> Any:
        long = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        self.nodes += 1 + long // _CHARACTERS_OF_A_NODE
        if self.nodes > MAX_NODES:
            raise ConfigError(
                f"{self.path}: expands to more than {MAX_NODES} values through its aliases",
                hint="Write the repeated parts out, or fewer of them.",
            )
        if id(node) in self.open:
            self.fault(path, node, "an alias that contains itself", "Write the value out")
            return None
        if len(path) > MAX_DEPTH:
            raise ConfigError(
                f"{self.path}:{node.start_mark.line + 1}: is nested too deeply",
                hint=f"Keep within {MAX_DEPTH} levels.",
            )
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if node.tag not in (f"{_CORE}map", f"{_CORE}seq"):
            self.fault(path, node, f"the YAML tag {node.tag} is not supported", "Write a plain value")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.convert(item, (*path, i)) for i, item in enumerate(node.value)]
            return self.mapping(node, path)
        finally:
            self.open.discard(id(node))

    def scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        read = _SCALARS.get(node.tag.removeprefix(_CORE))
        if read is None:
            self.fault(path, node, f"the YAML tag {node.tag} is not supported", "Write a plain value")
            return None
        value = self.joined(read(node.value), node, path)
        if isinstance(value, bool | int | float):
            self.document.texts[path] = node.value
        return value

    def joined(self, value: Any, node: yaml.Node, path: KeyPath) -> Any:
        """The value with an emoji that is written as two escapes (as JSON does) as one character.

        PyYAML reads each escape by itself; half of a pair can be neither printed nor sent.
        """
        if not isinstance(value, str) or not SURROGATE.search(value):
            return value
        value = paired(value)
        if SURROGATE.search(value):
            self.fault(path, node, "holds a lone surrogate", "Write the character itself")
            return SURROGATE.sub("\ufffd", value)
        return value

    def mapping(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag.endswith(":merge"):
                merged = {**self.merged(value_node, path), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.fault(path, key_node, "a key that is not plain text", "Use text as the key")
                continue
            key, line = self.joined(key_node.value, key_node, path), key_node.start_mark.line + 1
            inner = (*path, key)
            if key in result:
                self.document.faults.append(_twice(inner, self.document.lines[inner], line))
                continue
            self.document.lines[inner] = line
            result[key] = self.convert(value_node, inner)
        return {**merged, **result} if merged else result

    def merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        """The keys that `<<: *base` adds; of several sources the first wins, as the YAML merge type says."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self.fault(
                    path, source, "<< merges something that is not a mapping", "Merge an anchored mapping"
                )
                continue
            # None, with a fault, for one that contains itself.
            for key, value in (self.convert(source, path) or {}).items():
                result.setdefault(key, value)
        return result

    def fault(self, path: KeyPath, node: yaml.Node, found: str, remedy: str) -> None:
        self.document.faults.append(Fault(path, node.start_mark.line + 1, found, remedy))
