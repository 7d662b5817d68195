"""Add backends to a YAML file as text, below its line `backends:`; all other lines stay byte for byte.

Not by ruamel.yaml: it indents anew and moves comments, so that the shown diff has lines (and secrets) that the import
does not touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gatemini.config.documents.find import read_text
from gatemini.errors import ConfigError
from gatemini.processes.own_files import write_private

_HEADER = "# Gatemini configuration. All keys: `gatemini config schema`; check it: `gatemini config check`.\n"


@dataclass(frozen=True, slots=True)
class Edited:
    """The text of a file before and after."""

    path: Path
    before: str
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def write(self) -> Path | None:
        """Write the new text; returns the backup, or None when there was no file before."""
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self.path, self.after)
            return None
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        backup = self.path.with_name(f"{self.path.name}.bak-{stamp}")
        write_private(backup, self.before)
        write_private(self.path, self.after, self.path.stat().st_mode & 0o777)
        return backup


def add_backends(path: Path, backends: Mapping[str, Mapping[str, Any]]) -> Edited:
    """The file with these backends added to its `backends:`. Raises `ConfigError` where that is not safe."""
    before = read_text(path) if path.exists() else ""
    if not backends:
        return Edited(path, before, before)
    added = {name: dict(raw) for name, raw in backends.items()}
    try:
        after = _added(path, before, added)
        old = yaml.safe_load(before) or {}
        unchanged = yaml.safe_load(after) == {**old, "backends": {**(old.get("backends") or {}), **added}}
    except (yaml.YAMLError, AttributeError, TypeError):
        unchanged = False
    if not unchanged:
        raise ConfigError(
            f"{path}: backends cannot be added without changing what else it says",
            hint="Import into another file with --to and `include:` it.",
        )
    return Edited(path, before, after)


def _added(path: Path, before: str, added: dict[str, Any]) -> str:
    lines = before.splitlines(keepends=True) or [_HEADER]
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    root = yaml.compose(before, Loader=yaml.SafeLoader)
    found = [pair for pair in (root.value if root else ()) if pair[0].value == "backends"]
    if not found:
        return "".join([*lines, "backends:\n", _block(added, 2)])
    ((key, value),) = found
    at, indent = key.start_mark.line, 2
    if isinstance(value, yaml.MappingNode) and not value.flow_style:
        indent = value.value[0][0].start_mark.column
    elif isinstance(value, yaml.ScalarNode) and value.tag.endswith(":null"):
        lines[at] = lines[at][: value.start_mark.column] + lines[at][value.end_mark.column :]
    else:
        raise ConfigError(
            f"{path}:{value.start_mark.line + 1}: backends is written on one line and cannot be added to",
            hint="Write one backend per line below `backends:`, or import into another file with --to and `include:` it.",
        )
    return "".join([*lines[: at + 1], _block(added, indent), *lines[at + 1 :]])


def _block(added: dict[str, Any], indent: int) -> str:
    text = yaml.safe_dump(added, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1 << 20)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))
