"""Read the servers of another client's file: its words become ours, and a note names each field without meaning here.

Pure but for `envFile`. The words are in `table.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gatemini.config.clients import table
from gatemini.config.clients.foreign_references import foreign, refer
from gatemini.config.clients.server_sections import (
    client_of,
    left_out_by_name,
    project_sections,
    server_sections,
    servers_of,
    tools_off,
)
from gatemini.config.documents.document import Document
from gatemini.config.documents.find import written_path
from gatemini.config.documents.text_edit import value_at
from gatemini.config.entries import Entry
from gatemini.config.model.backend import BackendConfig
from gatemini.config.problems import KeyPath, Problem, closest, dotted, shown
from gatemini.config.variables.environment import read_env_file

_SHORT = 3
"""Names this short resemble anything: no guess is made for them."""
_MILLISECONDS_FROM = 1000
"""A timeout without a unit is in milliseconds from here on."""
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What a client's file may refer to."""

    environ: Mapping[str, str]
    home: Path


def is_client_document(document: Document) -> bool:
    """Whether a file names servers in the words of a client, and none in ours."""
    if "backends" in document.value:
        return False
    return bool(server_sections(document)) or any(
        key in document.value for key in table.SECTIONS_OF_CLIENTS_ONLY
    )


def client_faults(document: Document) -> list[Problem]:
    """Problems that belong to no single server of the file."""
    sections = server_sections(document)
    faults: list[Problem] = []
    for key in table.SECTIONS_OF_CLIENTS_ONLY:
        value = document.value.get(key)
        listed = isinstance(value, list) and ("mcpServers",) in sections
        if value is not None and not isinstance(value, dict) and not listed:
            found, remedy = f"found {shown(value, (key,))}", 'Write {"NAME": {"command": …}, …}'
            faults.append(document.problem((key,), found, "a mapping by name", remedy))
    for twice in document.faults:
        if any(section[: len(twice.path)] == twice.path for section in sections):
            place = (str(document.path), twice.line, dotted(twice.path))
            faults.append(Problem(*place, twice.found, "", twice.remedy))
    if any(path[:1] != ("projects",) for path in sections):
        for section in project_sections(document):
            count = len(value_at(document.value, section) or ())
            found = f"{count} of a project's own servers {'is' if count == 1 else 'are'} left out"
            remedy = "Put them into the gateway's own configuration if every project may use them"
            faults.append(document.problem(section, found, "", remedy, severity="warning"))
    return faults


def client_entries(document: Document, context: ClientContext, *, every_project: bool = False) -> list[Entry]:
    """All servers of a client's file in our words, in the order of the file, each name once.

    `every_project`: also Claude Code's servers of single projects beside those for all, with the names of each project
    by themselves, since many projects may have the same server.
    """
    inputs = _input_defaults(document)
    words = _words(document.path, context.home)
    entries: list[Entry] = []
    taken: set[str] = set()
    sections = server_sections(document)
    if every_project:
        sections = list(dict.fromkeys([*sections, *project_sections(document)]))
    for section in sections:
        if every_project:
            taken = set()
        for written, key, value in servers_of(document, section):
            name = _usable_name(str(written), taken)
            taken.add(name)
            entry = Entry(name, {}, document, (*section, key), {}, False, words, inputs)
            if name != written:
                note = f"the name {written!r} becomes {name}: names hold letters, digits, _ and -"
                entry.notes.append(entry.problem((), note, severity="warning"))
            if isinstance(value, dict):
                _Translation(entry, value, context).run()
                if why := left_out_by_name(document, str(written)):
                    entry.raw["disabled"] = True
                    entry.notes.append(entry.problem((), why, severity="warning"))
            else:
                found = "is not a mapping of keys, so it has neither command nor url"
                entry.notes.append(entry.problem((), found))
            entries.append(entry)
    return entries


def _usable_name(written: str, taken: set[str]) -> str:
    name = base = _NAME.sub("-", written).strip("-_")[:60] or "server"
    count = 2
    while name in taken:
        name, count = f"{base}-{count}", count + 1
    return name


def _input_defaults(document: Document) -> dict[str, str]:
    """The defaults of VS Code's `inputs`; that of a password does not count."""
    inputs = document.value.get("inputs") or value_at(document.value, ("mcp", "inputs"))
    found: dict[str, str] = {}
    for item in inputs if isinstance(inputs, list) else ():
        if isinstance(item, dict) and isinstance(item.get("id"), str) and not item.get("password"):
            default = item.get("default")
            if isinstance(default, str) and default:
                found[item["id"]] = default
    return found


def _words(path: Path, home: Path) -> dict[str, str]:
    """The values of the editors' own variables; the workspace is the folder of the file, or that above `.vscode`."""
    folder = path.absolute().parent
    workspace = folder.parent if folder.name in table.EDITOR_FOLDERS else folder
    return {
        **dict.fromkeys(("workspaceFolder", "workspaceRoot", "cwd"), str(workspace)),
        "workspaceFolderBasename": workspace.name,
        "userHome": str(home),
        "pathSeparator": "/",
        "/": "/",
    }


class _Translation:
    """One server: fills `entry.raw`, `entry.renamed` and `entry.notes`."""

    def __init__(self, entry: Entry, value: dict[str, Any], context: ClientContext) -> None:
        self.entry = entry
        self.value = value
        self.context = context
        self.raw = entry.raw
        self.renamed: dict[str, KeyPath] = {}
        entry.renamed = self.renamed
        self.client = client_of(entry.document.path, entry.prefix[:-1])

    def run(self) -> None:
        for key in table.SAME:
            if self.value.get(key) not in (None, [], {}) or (key in self.value and key == "command"):
                self.raw[key] = self.value[key]
        self.environment()
        self.command()
        self.address()
        self.transport()
        self.switches()
        self.filters()
        self.timeouts()
        self.variables_by_name()
        self.env_file()
        for key in self.value:
            if key not in table.KNOWN | table.SILENT:
                near = closest(key, table.KNOWN) if len(key) > _SHORT else None
                hint = f", did you mean {near}?" if near and near not in self.value else ""
                self.note(key, f"unknown field {key}{hint}; it was ignored")

    def take(self, ours: str, theirs: str, value: Any) -> None:
        self.raw[ours] = value
        self.renamed[ours] = (theirs,)

    def note(self, key: str, found: str, *, error: bool = False, allowed: str = "", remedy: str = "") -> None:
        path = (*self.entry.prefix, key)
        severity: Literal["error", "warning"] = "error" if error else "warning"
        self.entry.notes.append(self.entry.document.problem(path, found, allowed, remedy, severity=severity))

    def environment(self) -> None:
        """Our words under other names, and references to variables."""
        for theirs, ours in table.RENAMED.items():
            if self.value.get(theirs) not in (None, [], {}) and ours not in self.raw:
                self.take(ours, theirs, self.value[theirs])
        options = _mapping(self.value.get("requestOptions")).get("headers")
        if options and "headers" not in self.raw:
            self.raw["headers"], self.renamed["headers"] = options, ("requestOptions", "headers")
        for place in ("env", "headers"):
            values = self.raw.get(place)
            if isinstance(values, dict):  # a variable that is null is not set (VS Code)
                self.raw[place] = {name: value for name, value in values.items() if value is not None}
        refer(self.raw, self.client, self.context.environ)
        for place in (place for place in table.SAME if place in self.raw):
            if (found := foreign(self.raw[place], self.client)) is not None:
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
            for at in range(1, len(command)):
                self.entry.places["args", at - 1] = ("command", at)

    def address(self) -> None:
        theirs = next((key for key in table.URLS if self.value.get(key)), None)
        if theirs is not None:
            if self.raw.get("url", self.value[theirs]) != self.value[theirs]:
                self.note(theirs, f"there are {theirs} and url; {theirs} is taken")
            self.take("url", theirs, self.value[theirs])

    def transport(self) -> None:
        """`type` in all its spellings; without one, the address says it."""
        theirs = next((key for key in table.TRANSPORTS if self.value.get(key) not in (None, "")), None)
        url = self.raw.get("url")
        if theirs is None:
            plain = self.client == "gemini" and "url" not in self.renamed
            if (
                isinstance(url, str)
                and "command" not in self.raw
                and (plain or re.search(r"/sse/?(?:\?|\Z)", url))
            ):
                self.raw["transport"] = "sse"
            return
        written = self.value[theirs]
        kind = table.TRANSPORT_VALUES.get(re.sub(r"[-_\s]", "", str(written)).lower())
        if kind is None:
            allowed = "stdio, http, streamable-http, sse"
            self.note(theirs, f"found {str(written)[:40]!r}", error=True, allowed=allowed)
        elif kind != "stdio" and url is None and "command" in self.raw:
            self.note(theirs, f"says {written}, but there is only a command; it is started as stdio")
        else:
            self.take("transport", theirs, kind)

    def switches(self) -> None:
        """A switch that cannot be read leaves the server off, which its owner may have meant."""
        for theirs, off in table.SWITCHES.items():
            value = self.value.get(theirs)
            if value is None or (isinstance(value, str) and "${" in value):
                continue
            state = table.SWITCH_VALUES.get(str(value).strip().lower())
            if state is None:
                self.note(theirs, f"found {shown(value, (theirs,))}", error=True, allowed="true, false")
            elif state is off:
                self.take("disabled", theirs, True)
        for key, why in table.APPROVALS.items():
            if self.value.get(key) not in (None, False, []):
                self.note(key, f"{key} has no effect here: {why}")

    def filters(self) -> None:
        """Filters of tools protect, so one that cannot be read is an error."""
        tools: dict[str, list[Any]] = {}
        for theirs, ours in table.FILTERS.items():
            value = self.value.get(theirs)
            if value in (None, ["*"], "*") or (value == [] and (ours == "deny" or self.client == "goose")):
                continue
            if theirs == "tools" and isinstance(value, dict) and not value.keys() & {"include", "exclude"}:
                off = [name for name, one in value.items() if _mapping(one).get("enabled") is False]
                tools["deny"] = [*tools.get("deny", []), *off]  # Codex: settings of single tools
                if any("approval_mode" in _mapping(one) for one in value.values()):
                    self.note(theirs, "approval_mode has no effect here: the client decides what it approves")
            elif theirs == "tools" and isinstance(value, dict):  # Hermes
                for part, key in (("include", "allow"), ("exclude", "deny")):
                    names = value.get(part) or []
                    tools[key] = [*tools.get(key, []), *(names if isinstance(names, list) else [names])]
            elif value == []:
                tools["deny"] = ["*"]
                self.note(theirs, f"{theirs} names no tool, so none is offered")
            elif isinstance(value, list):
                tools[ours] = [*tools.get(ours, []), *value]
            else:
                self.note(
                    theirs, "a tool filter that is not a list of names", error=True, allowed="a list of names"
                )
        if self.client == "opencode":
            tools["deny"] = [
                *tools.get("deny", []),
                *tools_off(self.entry.document, str(self.entry.prefix[-1])),
            ]
        if any(tools.values()):
            self.raw["tools"] = {key: names for key, names in tools.items() if names}

    def timeouts(self) -> None:
        for theirs, (ours, unit) in table.TIMEOUTS.items():
            value = self.value.get(theirs)
            if value is None:
                continue
            if theirs == "timeout" and isinstance(value, dict):  # OpenCode's second version
                for part, name in (("startup", "connect_timeout"), ("request", "timeout")):
                    self.timeout(theirs, value.get(part), name, 0.001)
                continue
            if theirs == "timeout" and self.client == "opencode":  # the limit of listing the tools
                ours = "connect_timeout"
            if theirs == "timeout":
                unit = table.UNITS.get(self.client)
            self.timeout(theirs, value, ours, unit)

    def timeout(self, theirs: str, value: Any, ours: str, unit: float | None) -> None:
        """One time of a client; without a `unit` it is guessed from the size."""
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                default = BackendConfig.model_fields[ours].default
                found = f"{theirs} {shown(value, (theirs,))} was ignored: {default:g} s is in force"
                self.note(theirs, found, allowed="a number above 0", remedy="Write a time, or remove it")
                return
            seconds = value * (unit or (0.001 if value >= _MILLISECONDS_FROM else 1.0))
            self.take(ours, theirs, seconds)
            if unit is None:
                self.note(theirs, f"{theirs} {value} is read as {seconds:g} s")

    def variables_by_name(self) -> None:
        """Codex names variables instead of writing references."""
        token, names = self.value.get("bearer_token_env_var"), self.value.get("env_vars")
        headers = {
            **_mapping(self.value.get("http_headers")),
            **{key: f"${{{name}}}" for key, name in _mapping(self.value.get("env_http_headers")).items()},
        }
        if isinstance(token, str):
            headers["Authorization"] = f"Bearer ${{{token}}}"
            self.entry.places["headers", "Authorization"] = ("bearer_token_env_var",)
        for theirs in ("http_headers", "env_http_headers"):
            for key in _mapping(self.value.get(theirs)):
                self.entry.places["headers", key] = (theirs, key)
        if headers and "headers" not in self.raw:
            self.raw["headers"] = headers
        if names is None and self.client == "goose":
            names = self.value.get("env_keys")
        if isinstance(names, list):
            plain = [_mapping(name).get("name", name) for name in names]  # {name, source} or a name
            if all(isinstance(name, str) for name in plain):
                self.take("inherit_env", "env_vars", plain)
            else:
                found = "holds something that is neither a name nor {name, source}"
                self.note("env_vars", found, error=True, remedy="Write names of variables")

    def env_file(self) -> None:
        """The variables of `envFile`, unless `env` has them itself."""
        written = self.value.get("envFile")
        if written in (None, ""):
            return
        if not isinstance(written, str):
            self.note("envFile", "envFile is not a path", error=True, remedy="Write one path")
            return
        words = self.entry.words
        path = re.sub(r"\$\{([^}]+)\}", lambda m: words.get(m[1], m[0]), written)
        file = written_path(path, self.context.home, Path(words["workspaceFolder"]))
        self.entry.env_file = file.absolute()
        problems: list[Problem] = []
        values = read_env_file(file, self.context.environ, problems, must_exist=True)
        for problem in problems:
            whole = problem.line is None and not problem.key
            at = f"{file}:{problem.line}: {problem.key}".rstrip(": ") if problem.line else str(file)
            remedy = "Check the path in envFile" if whole else ""
            self.note("envFile", f"{at} {problem.found}", error=whole, remedy=remedy)
        own = _mapping(self.raw.get("env"))
        self.raw["env"] = {**values, **own}
        self.entry.from_env_file = frozenset(values) - frozenset(own)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
