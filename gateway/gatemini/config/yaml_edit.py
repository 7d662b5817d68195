"""Adding backends to a YAML file without disturbing what a person wrote: comments and order stay.

The new text is parsed and compared before it is offered; a form that cannot be added to safely is refused
with what to do by hand. Above: importing. Below: PyYAML, document, store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gatemini.config.files import read_text
from gatemini.config.store import write_private
from gatemini.errors import ConfigError

_HEADER = "# Gatemini configuration. All keys: `gatemini config schema`; check it: `gatemini config check`.\n"
_WIDTH = 10_000


@dataclass(frozen=True, slots=True)
class Edited:
    """A file's text before and after."""

    path: Path
    before: str
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def write(self) -> Path | None:
        """Write the new text; the backup's path, or None when there was no file before."""
        backup: Path | None = None
        mode = 0o600
        if self.path.exists():
            mode = self.path.stat().st_mode & 0o777
            stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
            backup = self.path.with_name(f"{self.path.name}.bak-{stamp}")
            write_private(backup, self.before)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self.path, self.after, mode)
        return backup


def add_backends(path: Path, backends: Mapping[str, Mapping[str, Any]]) -> Edited:
    """The file with these backends added to its `backends:`. Raises `ConfigError` where that is not safe."""
    before = read_text(path) if path.exists() else ""
    if not backends:
        return Edited(path, before, before)
    after = _added(path, before, backends)
    _must_hold(path, before, after, backends)
    return Edited(path, before, after)


def _added(path: Path, before: str, backends: Mapping[str, Mapping[str, Any]]) -> str:
    root = yaml.compose(before, Loader=yaml.SafeLoader) if before.strip() else None
    if root is None:
        return (before or _HEADER).rstrip("\n") + "\nbackends:\n" + _block(backends, 2)
    key, value = _backends_node(root)
    lines = before.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if key is None or value is None:
        return "".join(lines) + "\nbackends:\n" + _block(backends, 2)
    if isinstance(value, yaml.ScalarNode) and value.value in ("", "~", "null"):
        at = key.start_mark.line
        if value.value:
            lines[at] = lines[at][: value.start_mark.column] + lines[at][value.end_mark.column :]
        return "".join([*lines[: at + 1], _block(backends, 2), *lines[at + 1 :]])
    if not isinstance(value, yaml.MappingNode) or value.flow_style:
        raise ConfigError(
            f"{path}:{value.start_mark.line + 1}: backends is written as {{…}} on one line and cannot be added to",
            hint="Write one backend per line below `backends:`, or import into another file with --to and `include:` it.",
        )
    at = _end(value)
    return "".join([*lines[:at], _block(backends, value.value[0][0].start_mark.column), *lines[at:]])


def _backends_node(root: yaml.Node) -> tuple[yaml.Node | None, yaml.Node | None]:
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == "backends":
            return key, value
    return None, None


def _end(node: yaml.Node) -> int:
    """Index of the first line after a block node's own text."""
    if isinstance(node, yaml.ScalarNode) or (isinstance(node, yaml.CollectionNode) and node.flow_style):
        return node.end_mark.line if node.end_mark.column == 0 else node.end_mark.line + 1
    ends = [node.start_mark.line + 1]
    for item in node.value:
        ends += [_end(part) for part in (item if isinstance(item, tuple) else (item,))]
    return max(ends)


def _block(backends: Mapping[str, Mapping[str, Any]], indent: int) -> str:
    text = yaml.safe_dump(
        {name: dict(raw) for name, raw in backends.items()},
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=_WIDTH,
    )
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


def _must_hold(path: Path, before: str, after: str, backends: Mapping[str, Mapping[str, Any]]) -> None:
    """The new text says what the old one said, and the new backends exactly as wanted."""
    old = _plain(before)
    new = _plain(after)
    expected = {
        **old,
        "backends": {**(old.get("backends") or {}), **{n: dict(r) for n, r in backends.items()}},
    }
    if new != expected:
        raise ConfigError(
            f"{path}: could not be added to without changing what it says",
            hint="Import into another file with --to and `include:` it.",
        )


def _plain(text: str) -> dict[str, Any]:
    value = yaml.safe_load(text) if text.strip() else None
    return value if isinstance(value, dict) else {}
