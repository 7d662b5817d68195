"""The table of MCP clients: the places of their files, where a file holds its servers, and the words of a server.

Looked up in November 2026: Codex (developers.openai.com/codex), Gemini (geminicli.com/docs), OpenCode (opencode.ai/v2/docs),
Goose (its guide to config files), Warp (docs.warp.dev), Copilot (docs.github.com/copilot), Amazon Q (docs.aws.amazon.com, Using
MCP with Amazon Q Developer), Continue (docs.continue.dev), Roo's file of a project (docs.roocode.com; its global one by its
source, globalFileNames.ts), Junie (junie.jetbrains.com/docs), Cline (docs.cline.bot; its extension moves the file in VS Code's
folder to its own one). Codex writes TOML, Goose and Continue YAML, the others JSON
with comments. A new client is a new line here; `read.py` changes only for a client that means something new.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CODE = (
    "~/.config/Code/User/globalStorage",
    "~/Library/Application Support/Code/User/globalStorage",
    "$APPDATA/Code/User/globalStorage",
)
"""Where extensions of VS Code keep their files."""

CLIENT_FILES: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("~/.claude.json", "./.mcp.json"),
    "claude-desktop": (
        "~/.config/Claude/claude_desktop_config.json",
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "$APPDATA/Claude/claude_desktop_config.json",
    ),
    "cursor": ("~/.cursor/mcp.json", "./.cursor/mcp.json"),
    "windsurf": ("~/.codeium/windsurf/mcp_config.json",),
    "vscode": (
        "~/.config/Code/User/mcp.json",
        "~/.config/Code/User/settings.json",
        "~/Library/Application Support/Code/User/mcp.json",
        "$APPDATA/Code/User/mcp.json",
        "./.vscode/mcp.json",
    ),
    "gemini": ("~/.gemini/settings.json", "./.gemini/settings.json"),
    "codex": ("~/.codex/config.toml", "./.codex/config.toml"),
    "zed": ("~/.config/zed/settings.json",),
    "kiro": ("~/.kiro/settings/mcp.json",),
    "lmstudio": ("~/.lmstudio/mcp.json",),
    "amazonq": (
        "~/.aws/amazonq/mcp.json",
        "~/.aws/amazonq/agents/*.json",
        "~/.aws/amazonq/cli-agents/*.json",
        "./.amazonq/mcp.json",
        "./.amazonq/cli-agents/*.json",
    ),
    "opencode": (
        "~/.config/opencode/opencode.json",
        "~/.config/opencode/opencode.jsonc",
        "./opencode.json",
        "./opencode.jsonc",
    ),
    "crush": (
        "~/.config/crush/crush.json",
        "$LOCALAPPDATA/crush/crush.json",
        "./crush.json",
        "./.crush.json",
    ),
    "amp": ("~/.config/amp/settings.json",),
    "goose": ("~/.config/goose/config.yaml", "$APPDATA/Block/goose/config/config.yaml"),
    "continue": (
        "~/.continue/config.yaml",
        "~/.continue/mcpServers/*.yaml",
        "~/.continue/mcpServers/*.json",
        "./.continue/mcpServers/*.yaml",
        "./.continue/mcpServers/*.json",
    ),
    "cline": (
        "$CLINE_MCP_SETTINGS_PATH",
        "$CLINE_DATA_DIR/settings/cline_mcp_settings.json",
        "~/.cline/data/settings/cline_mcp_settings.json",
        *(f"{code}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json" for code in _CODE),
    ),
    "roo": (
        *(f"{code}/rooveterinaryinc.roo-cline/settings/mcp_settings.json" for code in _CODE),
        "./.roo/mcp.json",
    ),
    "junie": ("~/.junie/mcp/mcp.json", "./.junie/mcp/mcp.json"),
    "warp": ("~/.warp/.mcp.json", "./.warp/.mcp.json"),
    "copilot": ("~/.copilot/mcp-config.json",),
}
"""`~` is the home, `.` the working folder, `$NAME` a variable; `*` stands for any name."""
CLIENTS = tuple(CLIENT_FILES)
OTHER_NAMES = {"gemini-cli": "gemini"}
"""Other names that commands take for a client."""


def client_name(written: str) -> str:
    """The name of CLIENTS for one that a command was given."""
    return OTHER_NAMES.get(written, written)


@dataclass(frozen=True, slots=True)
class Install:
    """How `gatemini install` writes its entry for one client.

    `user` and `project` are places of CLIENT_FILES; of several the one of this platform is used. `stdio` and `http` are
    the keys beside command and args, and beside the address under `url`. `variable` is a header's reference to a variable,
    or `key:NAME` where the client has a key for the variable's name; None: the client reads no variables there.
    """

    client: str
    section: tuple[str, ...]
    user: tuple[str, ...]
    project: str | None = None
    stdio: Mapping[str, str] = field(default_factory=dict)
    url: str | None = "url"
    http: Mapping[str, str] = field(default_factory=dict)
    variable: str | None = None
    then: str = ""


INSTALLS: Mapping[str, Install] = {
    "claude-desktop": Install(
        "claude-desktop",
        ("mcpServers",),
        CLIENT_FILES["claude-desktop"],
        url=None,
        then="Quit Claude Desktop and start it again",
    ),
    "claude-code": Install(
        "claude-code",
        ("mcpServers",),
        ("~/.claude.json",),
        "./.mcp.json",
        {"type": "stdio"},
        http={"type": "http"},
        variable="${%s}",
        then="Sessions that start from now on have it",
    ),
    "cursor": Install(
        "cursor",
        ("mcpServers",),
        ("~/.cursor/mcp.json",),
        "./.cursor/mcp.json",
        variable="${env:%s}",
        then="Switch it on in Cursor's settings if it asks",
    ),
    "vscode": Install(
        "vscode",
        ("servers",),
        tuple(path for path in CLIENT_FILES["vscode"] if path.endswith("/User/mcp.json")),
        "./.vscode/mcp.json",
        {"type": "stdio"},
        http={"type": "http"},
        variable="${env:%s}",
        then="VS Code starts it with the next chat",
    ),
    "windsurf": Install(
        "windsurf",
        ("mcpServers",),
        CLIENT_FILES["windsurf"],
        url="serverUrl",
        variable="${env:%s}",
        then="Refresh the MCP servers in Windsurf, or restart it",
    ),
    "codex": Install(
        "codex",
        ("mcp_servers",),
        ("~/.codex/config.toml",),
        "./.codex/config.toml",
        variable="key:bearer_token_env_var",
        then="Sessions that start from now on have it",
    ),
    "gemini-cli": Install(
        "gemini",
        ("mcpServers",),
        ("~/.gemini/settings.json",),
        "./.gemini/settings.json",
        url="httpUrl",
        variable="${%s}",
        then="Restart Gemini CLI",
    ),
    "zed": Install(
        "zed",
        ("context_servers",),
        ("~/.config/zed/settings.json",),
        stdio={"source": "custom"},
        then="Zed starts it when the file is saved",
    ),
}
"""Looked up in November 2026 in the vendors' pages on MCP. Zed fills no variables in, and Claude Desktop's file has no
servers behind a URL: `--token-env` and `--url` are refused there."""

SECTIONS: tuple[tuple[str, ...], ...] = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("mcp_servers",),
    ("context_servers",),
    ("amp.mcpServers",),
)
"""Where servers are: most clients, VS Code's mcp.json, VS Code's settings, Codex, Zed, Amp."""
BARE_SECTION = ("mcp",)
"""Where OpenCode and Crush have theirs; the word alone does not say that servers are there."""
SECTIONS_OF_CLIENTS_ONLY = ("mcpServers", "mcp_servers", "context_servers", "amp.mcpServers")
EDITOR_FOLDERS = (
    ".vscode",
    ".cursor",
    ".gemini",
    ".windsurf",
    ".claude",
    ".kiro",
    ".roo",
    ".amazonq",
    ".warp",
    ".codex",
)
"""Folders of a workspace that hold a client's file; the workspace is the folder above."""
CRUSH_FILES = ("crush.json", ".crush.json")
MARKS: Mapping[str, frozenset[str]] = {
    "gemini": frozenset((".gemini", ".qwen")),
    "copilot": frozenset(("mcp-config.json",)),
    "cline": frozenset(("cline_mcp_settings.json", "mcp_settings.json", ".roo")),
    "kiro": frozenset((".kiro", ".amazonq", "amazonq")),
}
"""Names of files and folders by which the clients of a file are known, with those that mean the same by its words."""
UNITS: Mapping[str, float] = {
    "goose": 1.0,
    "crush": 1.0,
    "cline": 1.0,
    "gemini": 0.001,
    "kiro": 0.001,
    "opencode": 0.001,
}
"""Seconds of the unit of `timeout`; other clients write seconds or milliseconds without saying which."""

# The words of one server. Keys of the same name and meaning as ours:
SAME = ("command", "args", "env", "cwd", "url", "headers")
RENAMED = {"environment": "env", "envs": "env", "cmd": "command", "working_directory": "cwd"}
"""Key → ours: OpenCode's, Goose's, Warp's."""
URLS = ("uri", "baseUrl", "httpUrl", "httpURL", "serverUrl", "serverURL", "endpoint")
TRANSPORTS = ("type", "transport", "transportType")
TRANSPORT_VALUES = {
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    **dict.fromkeys(("http", "streamable", "streamablehttp", "httpstream", "remote"), "streamable-http"),
    **dict.fromkeys(("sse", "httpsse", "legacysse"), "sse"),
}
"""Folded spelling → ours."""
SWITCHES = {"disabled": True, "enabled": False, "isActive": False}
"""Key → the value that switches the server off."""
SWITCH_VALUES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
FILTERS = {
    **dict.fromkeys(("includeTools", "enabled_tools", "available_tools", "tools"), "allow"),
    **dict.fromkeys(("excludeTools", "disabledTools", "disabled_tools"), "deny"),
}
TIMEOUTS: Mapping[str, tuple[str, float | None]] = {
    "timeout": ("timeout", None),
    "tool_timeout_sec": ("timeout", 1.0),
    "startup_timeout_sec": ("connect_timeout", 1.0),
    "startup_timeout_ms": ("connect_timeout", 0.001),
    "connectionTimeout": ("connect_timeout", 0.001),
    "initTimeout": ("connect_timeout", 0.001),
    "connect_timeout": ("connect_timeout", 1.0),
}
"""Key → (ours, seconds of its unit; None where `UNITS` says it or nobody does)."""
APPROVALS: Mapping[str, str] = {
    **dict.fromkeys(
        ("autoApprove", "alwaysAllow", "trust", "autoapprove", "always_allow", "default_tools_approval_mode"),
        "the client decides what it approves",
    ),
    "sandboxEnabled": "the gateway starts it outside of the client's sandbox",
}
"""What is without effect here, and why."""
SILENT = frozenset(("gallery", "version", "extension", "alwaysLoad", "fromGalleryId", "watchPaths"))
"""What concerns the client alone."""
KNOWN = frozenset(
    (*SAME, *URLS, *TRANSPORTS, *SWITCHES, *FILTERS, *TIMEOUTS, *APPROVALS, *RENAMED, "envFile", "env_vars", "env_keys", "requestOptions",
     "name", "display_name", "description", "bundled", "required", "supports_parallel_tool_calls", "start_on_launch",
     "bearer_token_env_var", "http_headers", "env_http_headers", "source")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read, and the client that writes it."""

    client: str
    path: Path


def find_sources(
    home: Path, folder: Path, environ: Mapping[str, str], clients: Sequence[str] = ()
) -> list[Source]:
    """The files of these clients (all of them where none is named) that exist, each once."""
    found: dict[Path, Source] = {}
    for client, pattern in places(home, folder, environ, clients):
        for path in sorted(pattern.parent.glob(pattern.name)) if "*" in pattern.name else (pattern,):
            if path.is_file():
                found.setdefault(path.resolve(), Source(client, path))
    return list(found.values())


def places(
    home: Path, folder: Path, environ: Mapping[str, str], clients: Sequence[str] = ()
) -> list[tuple[str, Path]]:
    """Each client with the paths where its files are looked for on this machine."""
    found: list[tuple[str, Path]] = []
    for client in clients or CLIENTS:
        for written in CLIENT_FILES[client]:
            start, _, rest = written.partition("/")
            base = {"~": str(home), ".": str(folder)}.get(start) or environ.get(start.removeprefix("$"))
            if base:
                found.append((client, Path(base) / rest))
    return found


def install_place(
    install: Install, scope: str, home: Path, folder: Path, environ: Mapping[str, str]
) -> Path | None:
    """The file of a client in this scope and on this platform; None where it has none."""
    if scope == "project":
        return folder / install.project.removeprefix("./") if install.project else None
    start = {"darwin": "~/Library/", "win32": "$APPDATA/"}.get(sys.platform, "~/.")
    written = next((path for path in install.user if path.startswith(start)), install.user[0])
    base, _, rest = written.partition("/")
    top = str(home) if base == "~" else environ.get(base.removeprefix("$"))
    return Path(top) / rest if top else None
