"""Where the file of another client holds its servers, and which of them that file switches off by name."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gatemini.config.clients import table
from gatemini.config.documents.document import Document
from gatemini.config.documents.text_edit import value_at
from gatemini.config.problems import KeyPath

GOOSE_SECTION = ("extensions",)
_GOOSE_OWN = ("builtin", "platform", "frontend", "inline_python")
"""Kinds of Goose's extensions that are parts of Goose and no MCP servers."""


def server_sections(document: Document) -> list[KeyPath]:
    """The key paths of the mappings (Continue: lists) of servers."""
    found: list[KeyPath] = [
        path for path in table.SECTIONS if isinstance(value_at(document.value, path), dict)
    ]
    listed = document.value.get("mcpServers")
    is_yaml = document.path.suffix in (".yaml", ".yml")  # Continue's list; in JSON a list is a mistake
    if (
        is_yaml
        and listed
        and isinstance(listed, list)
        and all(isinstance(one, dict) for one in listed)
        and any("name" in one for one in listed)
    ):
        found.append(("mcpServers",))
    if not found and _are_servers(value_at(document.value, table.BARE_SECTION)):
        found = [table.BARE_SECTION]
    if not found and _are_extensions(document.value.get(GOOSE_SECTION[0])):
        found = [GOOSE_SECTION]
    if not found and document.path.suffix == ".json" and _are_servers(document.value):
        found = [()]  # Claude's plugins and Warp leave out the key around the servers
    return found or project_sections(document)


def servers_of(document: Document, section: KeyPath) -> Iterator[tuple[str, Any, Any]]:
    """Each server of a section: its name, its key in the file, and what the file has there."""
    servers = value_at(document.value, section)
    if isinstance(servers, list):
        # Continue's blocks from its hub have `uses` instead of a name.
        yield from ((str(one.get("name") or one.get("uses")), at, one) for at, one in enumerate(servers))
        return
    for name, one in servers.items():
        own = section == GOOSE_SECTION and isinstance(one, dict) and one.get("type") in _GOOSE_OWN
        if not own:
            yield str(name), str(name), one


def left_out_by_name(document: Document, name: str) -> str | None:
    """Why the file's own list switches a server off (Gemini), or None."""
    lists = document.value.get("mcp")
    lists = lists if isinstance(lists, dict) else {}
    allowed = lists.get("allowed", document.value.get("allowMCPServers"))
    excluded = lists.get("excluded", document.value.get("excludeMCPServers"))
    if isinstance(excluded, list) and name in excluded:
        return "is switched off by mcp.excluded of its file"
    if isinstance(allowed, list) and name not in allowed:
        return "is switched off: mcp.allowed of its file does not list it"
    return None


def tools_off(document: Document, name: str) -> list[str]:
    """The globs of a server's tools that the file's own `tools` switches off (OpenCode calls them SERVER_TOOL)."""
    tools = document.value.get("tools")
    off = [str(glob) for glob, on in tools.items() if on is False] if isinstance(tools, dict) else []
    own = [glob.removeprefix(f"{name}_") for glob in off if glob.startswith(f"{name}_")]
    return own or ["*" for glob in off if fnmatchcase(f"{name}_", glob)]


def client_of(path: Path, section: KeyPath) -> str:
    """The client that a file is of, where its words mean something else than with others; else empty."""
    if section == GOOSE_SECTION:
        return "goose"
    if section == table.BARE_SECTION:
        return "crush" if path.name in table.CRUSH_FILES else "opencode"
    return next((client for client, names in table.MARKS.items() if not names.isdisjoint(path.parts)), "")


def _are_servers(value: Any) -> bool:
    """Whether a mapping holds servers, and else only switches for servers of other files (OpenCode, Crush)."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    others = [one for one in value.values() if one.keys().isdisjoint(("command", "url"))]
    return len(others) < len(value) and all(one and one.keys() <= {"enabled", "disabled"} for one in others)


def _are_extensions(value: Any) -> bool:
    """Whether a mapping holds Goose's extensions: each says its type, and some are started or connected."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    return all("type" in one for one in value.values()) and any(
        "cmd" in one or "uri" in one for one in value.values()
    )


def project_sections(document: Document) -> list[KeyPath]:
    """Claude Code's servers of single projects."""
    projects = document.value.get("projects")
    found = [
        ("projects", str(name), "mcpServers") for name in (projects if isinstance(projects, dict) else ())
    ]
    return [path for path in found if isinstance(servers := value_at(document.value, path), dict) and servers]
