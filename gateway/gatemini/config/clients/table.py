from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PLACES: tuple[tuple[str, str], ...] = (
    ("claude-code", "~/.claude.json"),
    ("claude-code", "./.mcp.json"),
    ("claude-desktop", "~/.config/Claude/claude_desktop_config.json"),
    ("claude-desktop", "~/Library/Application Support/Claude/claude_desktop_config.json"),
    ("claude-desktop", "$APPDATA/Claude/claude_desktop_config.json"),
    ("cursor", "~/.cursor/mcp.json"),
    ("cursor", "./.cursor/mcp.json"),
    ("windsurf", "~/.codeium/windsurf/mcp_config.json"),
    ("vscode", "~/.config/Code/User/mcp.json"),
    ("vscode", "~/.config/Code/User/settings.json"),
    ("vscode", "~/Library/Application Support/Code/User/mcp.json"),
    ("vscode", "$APPDATA/Code/User/mcp.json"),
    ("vscode", "./.vscode/mcp.json"),
    ("gemini", "~/.gemini/settings.json"),
    ("gemini", "./.gemini/settings.json"),
    ("codex", "~/.codex/config.toml"),
    ("zed", "~/.config/zed/settings.json"),
    ("kiro", "~/.kiro/settings/mcp.json"),
    ("lmstudio", "~/.lmstudio/mcp.json"),
    ("amazonq", "~/.aws/amazonq/mcp.json"),
    ("opencode", "~/.config/opencode/opencode.json"),
    ("opencode", "~/.config/opencode/opencode.jsonc"),
    ("opencode", "./opencode.json"),
    ("opencode", "./opencode.jsonc"),
    ("crush", "~/.config/crush/crush.json"),
    ("crush", "$LOCALAPPDATA/crush/crush.json"),
    ("crush", "./crush.json"),
    ("crush", "./.crush.json"),
    ("amp", "~/.config/amp/settings.json"),
)
"""Where clients keep their servers: `~` is the home, `.` the working folder."""
CLIENTS = tuple(dict.fromkeys(client for client, _ in _PLACES))


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read and whose it is."""

    client: str
    path: Path


def find_sources(
    home: Path, folder: Path, environ: Mapping[str, str], clients: Sequence[str] = ()
) -> list[Source]:
    """The clients' files that are there."""
    found: dict[Path, Source] = {}
    for client, written in _PLACES:
        if clients and client not in clients:
            continue
        start, _, rest = written.partition("/")
        base = {"~": str(home), ".": str(folder)}.get(start) or environ.get(start.removeprefix("$"))
        if base and (Path(base) / rest).is_file():
            path = Path(base) / rest
            found.setdefault(path.resolve(), Source(client, path))
    return list(found.values())
