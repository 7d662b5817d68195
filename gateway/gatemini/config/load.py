"""Files → one `Loaded`: the configuration, everything wrong with it, and the secrets to hide.

`ConfigError` is raised only when the file as a whole cannot be used (missing, empty, half-written, binary)
or when a part that protects is wrong: running on without it would be worse than not running. Everything
else is a `Problem`, and a bad backend is disabled alone. Above: app, cli. Below: every file of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from gatemini.config.backend import BackendConfig
from gatemini.config.build import SWITCHED_OFF, Builder, Built
from gatemini.config.clients.read import ClientContext, client_entries, client_faults, is_client_document
from gatemini.config.document import Document, read_document
from gatemini.config.entries import Entry
from gatemini.config.environment import read_environment
from gatemini.config.files import config_directory, find_config, when_absent, written_path
from gatemini.config.interpolate import Reference, TemplateError, expand, parse_template
from gatemini.config.named import missing_backends, missing_targets
from gatemini.config.problems import NOT_BUILT, KeyPath, Problem, closest, dotted, explain, unknown_key
from gatemini.config.references import SecretAnswers, SecretResolver
from gatemini.config.schema import CompositeTool, Config, SearchConfig, SecretsConfig
from gatemini.config.store import STORE
from gatemini.errors import ConfigError
from gatemini.folders import home_folder
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

PROTECTING = frozenset(("registration", "sandbox", "secrets", "policy", "profile", "audit"))
"""Sections that limit what may happen: wrong ones stop the start, they are never replaced by defaults."""
_PROGRAM_TOKENS = ("VAULT_TOKEN", "BWS_ACCESS_TOKEN", "OP_SERVICE_ACCOUNT_TOKEN")
"""Variables that the preset programs log in with: hidden, since a program may print its token in an error."""
SHOWN_LINE = 80
"""Characters shown of the line of a composite tool's code that is wrong."""

_INCLUDABLE = frozenset(("backends", "aliases", "composite_tools"))
_MAX_INCLUDES = 32
_OF_CLASSIC = frozenset(("k1", "b", "name_weight"))
"""Keys of `search` that the ranking `best` does not read."""
_PER_ENTRY = frozenset(("aliases", "composite_tools"))


@dataclass(frozen=True, slots=True)
class BackendKeys:
    """Variables a backend needs (names only), and which of them have no value."""

    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """What loading gave. `config.backends` may be started; `disabled` says why the others may not."""

    config: Config
    problems: tuple[Problem, ...] = ()
    disabled: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    source: Path | None = None
    keys: Mapping[str, BackendKeys] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    files: frozenset[Path] = frozenset()
    """Every file that was read, as named and resolved: the main one, what it includes, adapters, files of secrets."""
    written: Mapping[str, BackendConfig] = field(default_factory=dict)
    """Backends with `secretref:` texts, as written: what is remembered of them outlives a change of the secret."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Backends that may not be started yet: `waits for secretref:vault:…`. `config.backends` has them as written."""
    resolver: SecretResolver | None = field(default=None, repr=False)
    """Whom to ask for what is waited for."""
    faulty: Mapping[str, str] = field(default_factory=dict)
    """Composite tools that were left out, each with what is wrong with its code."""
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    """The environment with what the `.env` files added: those are read once, a reload is given this."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")

    @property
    def unusable(self) -> dict[str, str]:
        """The disabled backends that nobody switched off, each with what is wrong with it."""
        return {name: why for name, why in self.disabled.items() if why != SWITCHED_OFF}


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    home: Path | None = None,
    config_dir: Path | None = None,
    variables: Mapping[str, str] | None = None,
    answers: SecretAnswers | None = None,
) -> Loaded:
    """Read the configuration. No file at all is no error: `source` is None and there are no backends.

    `environ` is the process environment; `.env` files are added below it, or `variables` stands for both. With
    `answers` no program and no server is asked for a secret: what these lack is told by `waits` (but not under
    `secrets.strict`, where every secret must be there).
    """
    directory = config_dir if config_dir is not None else config_directory()
    home = home if home is not None else home_folder()
    source = find_config(path, environ, directory)
    if source is None:
        return Loaded(Config())
    document = read_document(source, absent=when_absent(source))
    files = [home / ".env", directory / ".env", source.absolute().parent / ".env"]
    merged, problems = read_environment(files, environ) if variables is None else (dict(variables), [])
    return _Loading(source, document, merged, environ, home, directory, problems, answers).run()


class _Loading:
    """One load, from the parsed main file on."""

    def __init__(
        self,
        source: Path,
        document: Document,
        environ: Mapping[str, str],
        process: Mapping[str, str],
        home: Path,
        directory: Path,
        problems: list[Problem],
        answers: SecretAnswers | None,
    ) -> None:
        self.answers = answers
        self.source, self.document = source, document
        self.environ, self.process = environ, process
        self.context = ClientContext(environ, home)
        self.directory = directory
        self.problems = problems
        self.faulty: dict[str, str] = {}
        self.fatal: list[Problem] = []
        self.sections: dict[str, Any] = {}
        self.entries: dict[str, Entry] = {}
        self.read: set[Path] = {source.resolve()}
        self.resolver: SecretResolver | None = None
        self.writers: dict[KeyPath, Document] = {}
        """The file that each alias and composite tool in force stands in."""
        self.links: set[Path] = {source.absolute()}
        """The same files as they were named (a link on the way may be exchanged), and those backends name."""

    def run(self) -> Loaded:
        if is_client_document(self.document):
            self.client(self.document)
        else:
            self.native(self.document)
        for included in self.sections.pop("include", ()):
            self.include(included)
        settings: SecretsConfig = self.sections.get("secrets", SecretsConfig())
        built = self.build(settings)
        self.check_names(built)
        if self.fatal:  # only now: the same answer names what is wrong with the backends too
            self.refuse(self.fatal)
        if settings.strict:
            unresolved = [p for p in self.problems if p.unresolved]
            if unresolved:
                self.refuse(unresolved)
        return self.result(built, settings)

    def refuse(self, problems: list[Problem]) -> NoReturn:
        others = (p for p in self.problems if p.severity == "error")
        found = sorted(dict.fromkeys([*problems, *others]), key=self.place)
        raise ConfigError(
            "\n".join(p.text() for p in found),
            hint="Mend what is named above; `gatemini config check` shows everything without starting.",
            details={"problems": [p.to_json() for p in found]},
        )

    def client(self, document: Document) -> None:
        """Another client's format."""
        self.problems += client_faults(document)
        self.add_entries(client_entries(document, self.context))

    def native(self, document: Document) -> None:
        """Our own format: each section is checked by itself, so that one error does not hide another."""
        self.faults(document)
        for key, value in document.value.items():
            if key == "backends":
                self.add_entries(self.native_entries(document, value))
            elif key not in Config.model_fields:
                self.unknown_section(document, key, value)
            elif key in _PER_ENTRY:
                self.per_entry(document, key, value)
            elif key == "include" and isinstance(value, list):
                for at, item in enumerate(value):  # a wrong one costs no other file
                    self.section(document, key, [item], at)
            else:
                self.section(document, key, value)

    def faults(self, document: Document) -> None:
        """Duplicate keys and the like outside of single backends."""
        for fault in document.faults:
            if len(fault.path) >= 2 and fault.path[0] == "backends":
                continue
            problem = Problem(
                str(document.path), fault.line, dotted(fault.path), fault.found, "", fault.remedy
            )
            self.report(problem, str(fault.path[0]) if fault.path else "")

    def report(self, problem: Problem, section: str) -> None:
        (self.fatal if section in PROTECTING else self.problems).append(problem)

    def unknown_section(self, document: Document, key: str, value: Any) -> None:
        known = [name for name in Config.model_fields if name not in NOT_BUILT]
        found, allowed, remedy = unknown_key(key, known)
        if key == "strict":
            found, allowed, remedy = (
                "unknown key strict, did you mean secrets.strict?",
                "",
                "Write secrets: {strict: true}",
            )
        elif key != "mcpServers" and (client := closest(key, ("mcpServers",))) is not None:
            found, allowed, remedy = f"unknown key {key}, did you mean {client}?", "", f"Write {client}"
        elif isinstance(value, dict) and ("command" in value or "url" in value) and not closest(key, known):
            remedy = f"Put {key} under backends:"
        problem = Problem(str(document.path), document.line((key,)), key, found, allowed, remedy)
        near = "secrets" if key == "strict" else closest(key, [*known, *NOT_BUILT])
        self.report(problem, key if key in PROTECTING else near or "")

    def section(self, document: Document, key: str, value: Any, at: int | None = None) -> None:
        """One section; `at` says that `value` is only the part of a list at that place, which is added."""
        value = {} if value is None and key not in ("cache_path",) else value
        value = self.expand(document, value, (key,), key)
        try:
            checked = getattr(Config.model_validate({key: value}), key)
        except ValidationError as error:
            self.explain(document, error, (), key, at)
        else:
            self.sections[key] = checked if at is None else (*self.sections.get(key, ()), *checked)
            self.without_effect(document, key)

    def without_effect(self, document: Document, key: str) -> None:
        """Keys that are read only together with another one."""
        section = self.sections[key]
        if not isinstance(section, SearchConfig) or section.ranking == "classic":
            return
        for name in sorted(_OF_CLASSIC & section.model_fields_set):
            path = (key, name)
            found = f"{name} has no effect with ranking: best"
            remedy = f"Remove it, or write ranking: classic in {key}"
            self.problems.append(
                Problem(str(document.path), document.line(path), dotted(path), found, "", remedy, "warning")
            )

    def per_entry(self, document: Document, key: str, value: Any) -> None:
        """Aliases and composite tools: a wrong one is left out, the others stay."""
        if not isinstance(value, dict):
            if value is not None:
                problem = Problem(
                    str(document.path), document.line((key,)), key, "found no mapping", "a mapping by name"
                )
                self.problems.append(problem)
            return
        kept: dict[str, Any] = self.sections.setdefault(key, {})
        for name, item in value.items():
            item = self.expand(document, item, (key, name), key) if key == "aliases" else item
            try:
                checked = getattr(Config.model_validate({key: {name: item}}), key)
            except ValidationError as error:
                self.explain(document, error, (), key)
            else:
                if key == "composite_tools" and not self.is_code(document, name, checked[name]):
                    continue
                if kept.setdefault(name, checked[name]) is checked[name]:
                    self.writers[(key, name)] = document

    def is_code(self, document: Document, name: str, tool: CompositeTool) -> bool:
        """Whether a composite tool can run at all; a syntax error is found here, not at its first call."""
        try:
            prepare(tool.code)
        except SandboxSyntaxError as error:
            path = ("composite_tools", name, "code")
            found = f"{error.message} (line {error.line} of the code)" if error.line else error.message
            problem = Problem(
                str(document.path), document.line(path), dotted(path), found, "", error.hint or ""
            )
            self.problems.append(problem)
            line = f": `{error.source_line.strip()[:SHOWN_LINE]}`" if error.source_line.strip() else ""
            self.faulty[name] = f"{error.message} (line {error.line}, column {error.column}{line})"
            return False
        return True

    def explain(
        self,
        document: Document,
        error: ValidationError,
        prefix: KeyPath,
        section: str,
        at: int | None = None,
    ) -> None:
        for detail in error.errors(include_url=False):
            path, found, allowed, remedy = explain(detail, Config, document.value)
            path = (*prefix, *path)
            if at is not None:
                path = (path[0], at, *path[2:])
            problem = Problem(str(document.path), document.line(path), dotted(path), found, allowed, remedy)
            self.report(problem, section)

    def expand(self, document: Document, value: Any, path: KeyPath, section: str) -> Any:
        """Variables in sections other than backends: a missing one is a finding, the text stays."""
        if isinstance(value, dict):
            return {k: self.expand(document, v, (*path, k), section) for k, v in value.items()}
        if isinstance(value, list):
            return [self.expand(document, v, (*path, i), section) for i, v in enumerate(value)]
        if not isinstance(value, str):
            return value
        where = (str(document.path), document.line(path), dotted(path))
        if "secretref:" in value:
            self.report(Problem(*where, "a secretref: is not resolved here", "values of backends"), section)
        if "$" not in value:
            return value
        try:
            result = expand(parse_template(value), self.variable)
        except TemplateError as error:
            self.report(Problem(*where, str(error)), section)
            return value
        for reference in result.missing:
            remedy = f"Set {reference.name} in the environment or a .env file"
            self.report(Problem(*where, f"{reference.name} is not set", "", remedy, unresolved=True), section)
        return result.text

    def variable(self, reference: Reference) -> str | None:
        return self.environ.get(reference.name) if reference.kind == "variable" else None

    def native_entries(self, document: Document, value: Any) -> list[Entry]:
        if value is None:
            return []
        if not isinstance(value, dict):
            found = "found a list" if isinstance(value, list) else "found a single value"
            remedy = "Write `name:` with its keys indented below"
            line = document.line(("backends",))
            self.problems.append(
                Problem(str(document.path), line, "backends", found, "a mapping by name", remedy)
            )
            return []
        entries: list[Entry] = []
        for name, raw in value.items():
            entry = Entry(name, raw if isinstance(raw, dict) else {}, document, ("backends", name))
            if not isinstance(raw, dict):
                found = (
                    f"found {'nothing' if raw is None else 'no mapping'}, so it has neither command nor url"
                )
                entry.notes.append(entry.problem((), found, allowed="command, url, module or tools"))
            entries.append(entry)
        return entries

    def add_entries(self, entries: list[Entry]) -> None:
        """Same names in two files are never merged: the first stays, the second is reported."""
        for entry in entries:
            first = self.entries.setdefault(entry.name, entry)
            if first is not entry and first.raw != entry.raw:
                where = f"{first.document.path}:{first.document.line(first.prefix)}"
                found = f"{entry.name} is already defined in {where}, and differently"
                self.problems.append(
                    entry.problem((), found, remedy="Rename one of the two; the first is used")
                )

    def include(self, written: Path) -> None:
        path = written_path(str(written), self.context.home, self.source.absolute().parent)
        line = self.document.line(("include",))
        resolved = path.resolve()
        if resolved in self.read:
            return
        self.read.add(resolved)
        self.links.add(path)
        if len(self.read) > _MAX_INCLUDES:
            self.problems.append(
                Problem(str(self.source), line, "include", f"more than {_MAX_INCLUDES} files")
            )
            return
        try:
            document = read_document(path)
        except ConfigError as error:
            remedy = "Check the path in include" if not path.exists() else error.hint or ""
            self.problems.append(Problem(str(self.source), line, "include", error.message, "", remedy))
            return
        if is_client_document(document):
            self.client(document)
            return
        for key in [key for key in document.value if key not in _INCLUDABLE]:
            found = f"{key} has no effect in an included file"
            place = document.line((key,))
            self.report(Problem(str(path), place, key, found, ", ".join(sorted(_INCLUDABLE))), key)
            del document.value[key]
        self.native(document)

    def build(self, settings: SecretsConfig) -> dict[str, Built]:
        base = self.source.absolute().parent
        if self.answers is not None and not settings.strict:
            resolver = SecretResolver(
                self.environ, settings, base, self.context.home, self.answers, later=True
            )
        else:
            resolver = SecretResolver(self.environ, settings, base, self.context.home)
        store = self.directory / STORE
        redact = frozenset(settings.redact)
        builder = Builder(self.environ, self.process, resolver, redact, store, resolves=not self.fatal)
        built = {name: builder.build(entry) for name, entry in self.entries.items()}
        self.resolver = resolver
        self.links |= resolver.files | {e.env_file for e in self.entries.values() if e.env_file is not None}
        for one in built.values():
            self.problems += one.problems
        return built

    def check_names(self, built: Mapping[str, Built]) -> None:
        """Fallbacks, targets of aliases and backends in code must exist: they would look as if they were there."""
        for name, one in built.items():
            for at, other in enumerate(one.config.fallback_chain if one.config else ()):
                if other not in built or other == name:
                    near = closest(other, [n for n in built if n != name])
                    found = f"there is no other backend {other}" + (f", did you mean {near}?" if near else "")
                    entry = self.entries[name]
                    self.problems.append(entry.problem(("fallback_chain", at), found, severity="warning"))
        spaces = {*built, *(one.config.namespace or "" for one in built.values() if one.config)} - {""}
        composites: dict[str, CompositeTool] = self.sections.get("composite_tools", {})
        for path, found in (
            *missing_targets(self.sections.get("aliases", {}), spaces, {*composites, *self.faulty}),
            *missing_backends(composites, spaces),
        ):
            document = self.writers[path[:2]]
            place = (str(document.path), document.line(path), dotted(path))
            self.problems.append(Problem(*place, found, severity="warning"))

    def result(self, built: Mapping[str, Built], settings: SecretsConfig) -> Loaded:
        backends: dict[str, BackendConfig] = {n: b.config for n, b in built.items() if b.config is not None}
        secrets = [pair for one in built.values() for pair in one.secrets]
        hidden = (*settings.redact, *_PROGRAM_TOKENS)
        secrets += [(name, self.environ[name]) for name in hidden if self.environ.get(name)]
        return Loaded(
            config=Config.model_construct(**{**_defaults(), **self.sections, "backends": backends}),
            problems=tuple(sorted(dict.fromkeys(self.problems), key=self.place)),
            disabled={n: b.reason for n, b in built.items() if b.reason is not None},
            secrets=tuple(dict.fromkeys(secrets)),
            source=self.source,
            keys={n: BackendKeys(b.keys, b.missing) for n, b in built.items()},
            origins={n: f"{e.document.path}:{e.document.line(e.prefix)}" for n, e in self.entries.items()},
            files=frozenset(self.read | self.links),
            written={n: b.written for n, b in built.items() if b.written is not None},
            waits={n: ", ".join(dict.fromkeys(b.waits)) for n, b in built.items() if b.waits and b.config},
            resolver=self.resolver,
            faulty=self.faulty,
            variables=self.environ,
        )

    def place(self, problem: Problem) -> tuple[bool, str, int]:
        """Findings are listed as they stand: the main file first, each file from top to bottom."""
        return problem.file != str(self.source), problem.file, problem.line or 0


def _defaults() -> dict[str, Any]:
    config = Config()
    return {name: getattr(config, name) for name in Config.model_fields}
