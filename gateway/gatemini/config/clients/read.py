"""Other clients' files: Claude Desktop and Code, Cursor, Windsurf, VS Code, Gemini, Codex, Zed, Cline and kin.

They all mean the same few things in different words; here those words become ours, and every field that has
no meaning for a gateway is reported, not dropped in silence. Pure but for `envFile`. Above: load, importing.
Below: document, entries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gatemini.config.backend import BackendConfig
from gatemini.config.document import Document
from gatemini.config.entries import GUESSED_WORDS, Entry, guessed_word
from gatemini.config.environment import read_env_file
from gatemini.config.files import written_path
from gatemini.config.problems import KeyPath, Problem, closest, dotted, shown

_SECTIONS: tuple[KeyPath, ...] = (
    ("mcpServers",),
    ("servers",),
    ("mcp", "servers"),
    ("mcp_servers",),
    ("context_servers",),
    ("amp.mcpServers",),
)
"""Where clients keep their servers: most, VS Code's mcp.json, VS Code's settings, Codex, Zed, Amp."""
_BARE = ("mcp",)
"""Where OpenCode and Crush keep theirs, without a word that tells what stands there."""
_UNMISTAKABLE = ("mcpServers", "mcp_servers", "context_servers", "amp.mcpServers")
"""Keys that only a client's file has, whatever stands there."""
_EDITOR_FOLDERS = frozenset(
    (".vscode", ".cursor", ".gemini", ".windsurf", ".claude", ".kiro", ".roo", ".amazonq")
)
_TYPES: dict[str, str] = {
    "stdio": "stdio",
    "local": "stdio",
    "command": "stdio",
    "http": "streamable-http",
    "streamable": "streamable-http",
    "streamablehttp": "streamable-http",
    "httpstream": "streamable-http",
    "remote": "streamable-http",
    "sse": "sse",
    "httpsse": "sse",
    "legacysse": "sse",
}
_SAME = ("command", "args", "env", "cwd", "url", "headers")
_SWITCHES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
"""How people write yes and no."""
_APPROVALS = frozenset(("autoApprove", "alwaysAllow", "trust", "autoapprove", "always_allow"))
_HANDLED = frozenset(
    ("type", "transport", "transportType", "httpUrl", "serverUrl", "serverURL", "httpURL", "endpoint", "disabled",
     "enabled", "isActive", "envFile", "includeTools", "excludeTools", "disabledTools", "enabled_tools",
     "disabled_tools", "tools", "timeout", "tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms",
     "bearer_token_env_var", "http_headers", "env_http_headers", "env_vars", "source", "environment")
)  # fmt: skip
_SHORT = 3
"""Names this short resemble anything: no guess is made for them."""
_MILLISECONDS_FROM = 1000
"""Clients write timeouts in seconds or milliseconds without saying so: from here on it is the latter."""
_GEMINI_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)\Z")
_BRACED = re.compile(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SHELL_VARIABLE = re.compile(r"(?<![\\$])\$([A-Za-z_][A-Za-z0-9_]*)")
_CRUSH_FILES = frozenset(("crush.json", ".crush.json"))
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a client's file may refer to."""

    environ: Mapping[str, str]
    home: Path


def is_client_document(document: Document) -> bool:
    """Whether a file is in a client's format: it names servers, and none of ours."""
    if "backends" in document.value:
        return False
    return bool(_sections(document)) or any(key in document.value for key in _UNMISTAKABLE)


def client_faults(document: Document) -> list[Problem]:
    """What no single server of the file can be blamed for."""
    faults: list[Problem] = []
    for path in _SECTIONS:
        value = _at(document.value, path)
        if value is not None and not isinstance(value, dict) and path[0] in _UNMISTAKABLE:
            found, remedy = f"found {shown(value, path)}", 'Write {"NAME": {"command": …}, …}'
            faults.append(_fault(document, path, found, "a mapping by name", remedy))
    for twice in document.faults:
        if any(section[: len(twice.path)] == twice.path for section in _sections(document)):
            faults.append(
                Problem(str(document.path), twice.line, dotted(twice.path), twice.found, "", twice.remedy)
            )
    projects = document.value.get("projects")
    left = _project_sections(projects) if any(path[0] != "projects" for path in _sections(document)) else []
    for section in left:
        count = len(_at(document.value, section))
        found = f"{count} of a project's own servers {'is' if count == 1 else 'are'} left out"
        remedy = "Put them into the gateway's own configuration if every project may use them"
        faults.append(_fault(document, section, found, "", remedy, severity="warning"))
    return faults


def _fault(
    document: Document,
    path: KeyPath,
    found: str,
    allowed: str = "",
    remedy: str = "",
    severity: Literal["error", "warning"] = "error",
) -> Problem:
    return Problem(str(document.path), document.line(path), dotted(path), found, allowed, remedy, severity)


def _sections(document: Document) -> list[KeyPath]:
    found = [path for path in _SECTIONS if isinstance(_at(document.value, path), dict)]
    if not found and _are_servers(_at(document.value, _BARE)):
        found = [_BARE]
    return found or _project_sections(document.value.get("projects"))


def _are_servers(value: Any) -> bool:
    """Whether a mapping holds servers, and beside them nothing but switches for servers of other files."""
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    named = [one for one in value.values() if not one.keys().isdisjoint(("command", "url"))]
    return bool(named) and all(one in named or _is_switch(one) for one in value.values())


def _is_switch(value: Any) -> bool:
    """OpenCode and Crush put several files together: one may only switch a server on or off that another has."""
    return isinstance(value, dict) and bool(value) and value.keys() <= {"enabled", "disabled"}


def _project_sections(projects: Any) -> list[KeyPath]:
    """Claude Code's servers of single projects."""
    return [
        ("projects", str(name), "mcpServers")
        for name, project in (projects.items() if isinstance(projects, dict) else ())
        if isinstance(project, dict) and isinstance(project.get("mcpServers"), dict) and project["mcpServers"]
    ]


def _at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def client_entries(document: Document, context: ClientContext, *, every_project: bool = False) -> list[Entry]:
    """All servers of a client's file in our words, in the file's order; a name is given out once.

    `every_project`: also Claude Code's servers of single projects where there are some for all of them, and the names
    of each project by themselves, since the same server may stand in many.
    """
    inputs = _input_defaults(document)
    words = _words(document.path, context.home)
    entries: list[Entry] = []
    taken: set[str] = set()
    sections = _sections(document)
    if every_project:
        sections = list(dict.fromkeys([*sections, *_project_sections(document.value.get("projects"))]))
    for section in sections:
        if every_project:
            taken = set()
        for written, value in _at(document.value, section).items():
            name = _usable_name(str(written), taken)
            taken.add(name)
            entry = Entry(name, {}, document, (*section, str(written)), {}, False, words, inputs)
            if name != written:
                note = f"the name {written!r} becomes {name}: names hold letters, digits, _ and -"
                entry.notes.append(entry.problem((), note, severity="warning"))
            if isinstance(value, dict):
                _Translation(entry, value, context).run()
            else:
                entry.notes.append(
                    entry.problem((), "is no mapping of keys, so it has neither command nor url")
                )
            entries.append(entry)
    return entries


def _usable_name(written: str, taken: set[str]) -> str:
    name = _NAME.sub("-", written).strip("-_")[:60] or "server"
    base, count = name, 2
    while name in taken:
        name = f"{base}-{count}"
        count += 1
    return name


def _input_defaults(document: Document) -> dict[str, str]:
    """VS Code's `inputs` that answer themselves; passwords never have a default that counts."""
    inputs = document.value.get("inputs")
    if not isinstance(inputs, list):
        inputs = _at(document.value, ("mcp", "inputs"))
    found: dict[str, str] = {}
    for item in inputs if isinstance(inputs, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str) and not item.get("password"):
            default = item.get("default")
            if isinstance(default, str) and default:
                found[item["id"]] = default
    return found


def _words(path: Path, home: Path) -> dict[str, str]:
    """What editors put in by themselves: the folder that holds `.vscode` or the file itself."""
    folder = path.absolute().parent
    workspace = folder.parent if folder.name in _EDITOR_FOLDERS else folder
    return {
        "userHome": str(home),
        "workspaceFolder": str(workspace),
        "workspaceRoot": str(workspace),
        "cwd": str(workspace),
        "workspaceFolderBasename": workspace.name,
        "pathSeparator": "/",
        "/": "/",
    }


def _seconds_written(value: Any) -> Any:
    """`"60"` as the number it is; `30s` stays text, which our own format reads."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value if re.fullmatch(r"\s*[0-9.]+\s*(?:ms|s|m|h)\s*", value) else None


class _Translation:
    """One server's fields, client words to ours; fills `entry.raw`, `entry.renamed` and `entry.notes`."""

    def __init__(self, entry: Entry, value: dict[str, Any], context: ClientContext) -> None:
        self.entry = entry
        self.value = value
        self.context = context
        self.raw = entry.raw
        self.renamed: dict[str, KeyPath] = {}
        entry.renamed = self.renamed

    def run(self) -> None:
        for key in _SAME:
            if self.value.get(key) not in (None, [], {}) or (key in self.value and key == "command"):
                self.raw[key] = self.value[key]
        self.environment()
        self.command()
        self.addresses()
        self.transport()
        self.switches()
        self.filters()
        self.timeouts()
        self.codex()
        if self.is_gemini():
            self.gemini_variables()
        self.env_file()
        self.unknown()

    def take(self, ours: str, theirs: str, value: Any) -> None:
        self.raw[ours] = value
        self.renamed[ours] = (theirs,)

    def note(self, key: str, found: str, *, error: bool = False, allowed: str = "", remedy: str = "") -> None:
        path = (*self.entry.prefix, key)
        severity: Literal["error", "warning"] = "error" if error else "warning"
        self.entry.notes.append(_fault(self.entry.document, path, found, allowed, remedy, severity))

    def is_gemini(self) -> bool:
        return ".gemini" in self.entry.document.path.parts

    def environment(self) -> None:
        """OpenCode's word for it and its `{env:NAME}`, Crush's `$NAME`; a variable that is null is not set (VS Code)."""
        if "environment" in self.value and "env" not in self.raw:
            self.take("env", "environment", self.value["environment"])
        for place in ("env", "headers"):
            values = self.raw.get(place)
            if isinstance(values, dict):
                self.raw[place] = {name: value for name, value in values.items() if value is not None}
        if self.entry.prefix[:-1] == _BARE:
            crush = self.entry.document.path.name in _CRUSH_FILES
            for place in (place for place in _SAME if place in self.raw):
                self.raw[place] = _referring(self.raw[place], _SHELL_VARIABLE if crush else _BRACED)
                if crush and "$(" in str(self.raw[place]):
                    found = "holds $(…), a command that Crush runs and the gateway does not"
                    self.note(place, found, error=True, remedy="Write ${NAME}, or keep the value as a secret")

    def command(self) -> None:
        """`command` may be a list (its rest are arguments) or Zed's `{path, args, env}`."""
        command = self.raw.get("command")
        if isinstance(command, dict):
            self.raw.pop("command")
            for ours, theirs in (("command", "path"), ("args", "args"), ("env", "env")):
                if command.get(theirs):
                    self.raw[ours] = command[theirs]
                    self.renamed[ours] = ("command", theirs)
        elif isinstance(command, list) and command:
            args = self.raw.get("args")
            self.raw["command"] = command[0]
            self.raw["args"] = [*command[1:], *(args if isinstance(args, list) else [])]

    def addresses(self) -> None:
        for theirs in ("httpUrl", "httpURL", "serverUrl", "serverURL", "endpoint"):
            if self.value.get(theirs):
                if "url" in self.raw and self.raw["url"] != self.value[theirs]:
                    self.note(theirs, f"{theirs} and url both stand here; {theirs} is taken")
                self.take("url", theirs, self.value[theirs])
                return

    def transport(self) -> None:
        """`type` in all its spellings; without one, what the address itself says."""
        for theirs in ("type", "transport", "transportType"):
            written = self.value.get(theirs)
            if written in (None, ""):
                continue
            kind = _TYPES.get(re.sub(r"[-_\s]", "", str(written)).lower())
            if kind is None:
                self.note(
                    theirs,
                    f"found {str(written)[:40]!r}",
                    error=True,
                    allowed="stdio, http, streamable-http, sse",
                )
            elif kind != "stdio" and "url" not in self.raw and "command" in self.raw:
                self.note(theirs, f"says {written}, but there is only a command; it is started as stdio")
            else:
                self.take("transport", theirs, kind)
            return
        url = self.raw.get("url")
        if not isinstance(url, str) or "command" in self.raw:
            return
        gemini_sse = self.is_gemini() and self.renamed.get("url") is None
        if gemini_sse or re.search(r"/sse/?(?:\?|\Z)", url):
            self.raw["transport"] = "sse"

    def switches(self) -> None:
        """A switch that cannot be read leaves the server off: its owner may have meant that."""
        for theirs, off in (("disabled", True), ("enabled", False), ("isActive", False)):
            value = self.value.get(theirs)
            if value is None or (isinstance(value, str) and "${" in value):
                continue
            state = _SWITCHES.get(str(value).strip().lower())
            if state is None:
                self.note(theirs, f"found {shown(value, (theirs,))}", error=True, allowed="true, false")
            elif state is off:
                self.take("disabled", theirs, True)
        for key in _APPROVALS & self.value.keys():
            if self.value[key] not in (None, False, []):
                self.note(key, f"{key} has no effect here: the client decides what it approves")

    def filters(self) -> None:
        """Tool filters protect, so they are kept: `includeTools` → allow, `excludeTools` → deny."""
        tools: dict[str, Any] = {}
        for ours, names in (
            ("allow", ("includeTools", "enabled_tools", "tools")),
            ("deny", ("excludeTools", "disabledTools", "disabled_tools")),
        ):
            for theirs in names:
                value = self.value.get(theirs)
                if isinstance(value, list) and value and value != ["*"]:
                    tools[ours] = [*tools.get(ours, []), *value]
                elif value not in (None, [], ["*"], "*"):
                    self.note(
                        theirs,
                        "a tool filter that is no list of names",
                        error=True,
                        allowed="a list of names",
                    )
        if tools:
            self.raw["tools"] = tools

    def timeouts(self) -> None:
        for ours, theirs, unit in (
            ("timeout", "timeout", None),
            ("timeout", "tool_timeout_sec", 1.0),
            ("connect_timeout", "startup_timeout_sec", 1.0),
            ("connect_timeout", "startup_timeout_ms", 0.001),
        ):
            value = self.value.get(theirs)
            if value is None:
                continue
            value = _seconds_written(value)
            if isinstance(value, str):
                self.take(ours, theirs, value)
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                default = BackendConfig.model_fields[ours].default
                found = (
                    f"{theirs} {shown(self.value[theirs], (theirs,))} was ignored: {default:g} s is in force"
                )
                self.note(theirs, found, allowed="a number above 0", remedy="Write a time, or remove it")
                continue
            milliseconds = unit is None and (value >= _MILLISECONDS_FROM or self.is_gemini())
            seconds = value * (unit if unit is not None else 0.001 if milliseconds else 1.0)
            self.take(ours, theirs, seconds)
            if unit is None:
                self.note(theirs, f"{theirs} {value} is read as {seconds:g} s")

    def codex(self) -> None:
        """Codex names variables instead of writing references."""
        headers = (
            dict(self.raw.get("headers") or {}) if isinstance(self.raw.get("headers"), dict | None) else {}
        )
        for key, value in _mapping(self.value.get("http_headers")).items():
            headers[key] = value
        for key, value in _mapping(self.value.get("env_http_headers")).items():
            headers[key] = f"${{{value}}}"
        if isinstance(self.value.get("bearer_token_env_var"), str):
            headers["Authorization"] = f"Bearer ${{{self.value['bearer_token_env_var']}}}"
            self.renamed["headers"] = ("bearer_token_env_var",)
        if headers and "headers" not in self.raw:
            self.raw["headers"] = headers
        if isinstance(self.value.get("env_vars"), list):
            self.take("inherit_env", "env_vars", self.value["env_vars"])

    def gemini_variables(self) -> None:
        """Gemini also reads `"$NAME"` as a variable."""
        for place in ("env", "headers"):
            for key, value in list(_mapping(self.raw.get(place)).items()):
                match = _GEMINI_VARIABLE.match(value) if isinstance(value, str) else None
                if match:
                    self.raw[place] = {**self.raw[place], key: f"${{{match[1]}}}"}

    def env_file(self) -> None:
        """Variables of `envFile` go to the backend; what `env` says itself wins."""
        written = self.value.get("envFile")
        if written in (None, ""):
            return
        if not isinstance(written, str):
            self.note("envFile", "envFile is no path", error=True, remedy="Write one path")
            return
        path = re.sub(r"\$\{([^}]+)\}", lambda m: self.entry.words.get(m[1], m[0]), written)
        home, folder = self.context.home, self.entry.words.get("workspaceFolder", ".")
        for word in sorted(w for w in GUESSED_WORDS if f"${{{w}}}" in written and w in self.entry.words):
            self.note("envFile", guessed_word(word, self.entry.words[word]))
        file = written_path(path, home, Path(folder))
        self.entry.env_file = file.absolute()
        problems: list[Problem] = []
        values = read_env_file(file, self.context.environ, problems, must_exist=True)
        for problem in problems:
            whole = problem.line is None and not problem.key
            at = f"{file}:{problem.line}: {problem.key}".rstrip(": ") if problem.line else str(file)
            remedy = "Check the path in envFile" if whole else ""
            self.note("envFile", f"{at} {problem.found}", error=whole, remedy=remedy)
        env = self.raw.get("env")
        own = env if isinstance(env, dict) else {}
        self.raw["env"] = {**values, **own}
        self.entry.from_env_file = frozenset(values) - frozenset(own)

    def unknown(self) -> None:
        for key in self.value:
            if key in _SAME or key in _HANDLED or key in _APPROVALS:
                continue
            near = closest(key, [*_SAME, *_HANDLED]) if len(key) > _SHORT else None
            hint = f", did you mean {near}?" if near and near not in self.value else ""
            self.note(key, f"unknown field {key}{hint}; it was ignored")


def _referring(value: Any, variable: re.Pattern[str]) -> Any:
    """A client's own form of a variable as our reference, wherever it stands in a value."""
    if isinstance(value, dict):
        return {key: _referring(inner, variable) for key, inner in value.items()}
    if isinstance(value, list):
        return [_referring(inner, variable) for inner in value]
    return variable.sub(r"${\1}", value) if isinstance(value, str) else value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
