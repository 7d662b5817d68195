"""Load the configuration: files → one `Loaded` with the configuration, everything wrong with it, and the secrets to hide.

`ConfigError` is raised only when the file as a whole cannot be used (missing, empty, half-written, binary), or when a
section that protects is wrong. Everything else is a `Problem`, and a bad backend is disabled alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from gatemini.config import profile
from gatemini.config.build import SWITCHED_OFF, Builder, Built
from gatemini.config.check_targets import missing_backends, missing_targets
from gatemini.config.clients.read import ClientContext, client_entries, client_faults, is_client_document
from gatemini.config.documents.document import Document, read_document
from gatemini.config.documents.find import config_directory, find_config, when_absent, written_path
from gatemini.config.entries import Entry
from gatemini.config.model.audit import AuditConfig
from gatemini.config.model.backend import BackendConfig
from gatemini.config.model.http.state import StateConfig
from gatemini.config.model.policy import PINS_FILE, PolicyConfig
from gatemini.config.model.schema import CompositeTool, Config, DaemonConfig, SecretsConfig
from gatemini.config.problems import Problem, closest, dotted
from gatemini.config.sections import Sections
from gatemini.config.variables.environment import read_environment
from gatemini.config.variables.own_keys import OwnKeys, own_keys
from gatemini.config.variables.references import SecretAnswers, SecretResolver
from gatemini.config.variables.store import STORE
from gatemini.errors import ConfigError
from gatemini.folders import home_folder
from gatemini.processes.own_files import others_may_write

_PROGRAM_TOKENS = ("VAULT_TOKEN", "BWS_ACCESS_TOKEN", "OP_SERVICE_ACCOUNT_TOKEN")
"""Variables that the preset programs log in with: hidden, since a program may print its token in an error."""
_INCLUDABLE = ("aliases", "backends", "composite_tools")
_MAX_INCLUDES = 32


@dataclass(frozen=True, slots=True)
class BackendKeys:
    """Variables a backend needs (names only), and which of them have no value."""

    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded configuration. `config.backends` may be started; `disabled` says why the others may not."""

    config: Config
    problems: tuple[Problem, ...] = ()
    disabled: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    source: Path | None = None
    keys: Mapping[str, BackendKeys] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    files: frozenset[Path] = frozenset()
    """Every file that was read, as named and resolved: the main one, included ones, adapters, files of secrets."""
    written: Mapping[str, BackendConfig] = field(default_factory=dict)
    """Backends with their `secretref:` texts: the cache of their tools outlives a change of the secret."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """Backends that wait for a secret: `waits for secretref:vault:…`. `config.backends` has their `secretref:` texts."""
    resolver: SecretResolver | None = field(default=None, repr=False)
    """Asks for those secrets."""
    faulty: Mapping[str, str] = field(default_factory=dict)
    """Composite tools that were left out, each with what is wrong with its code."""
    spaces: frozenset[str] = frozenset()
    """Namespaces of all backends, disabled ones included, and aliases: what code may write in front of a tool."""
    webhook_key: str = field(default="", repr=False)
    """The key of `policy.approvals.webhook`, resolved."""
    state_keys: tuple[str, ...] = field(default=(), repr=False)
    """`state.keys`, resolved."""
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    """The environment with the variables of `.env` files; a reload gets these, since the files are read once."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")

    @property
    def unusable(self) -> dict[str, str]:
        """Disabled backends that are not `disabled: true`, each with what is wrong with it."""
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
    """Read the configuration. Without a file `source` is None and there are no backends.

    `environ` is the process environment; variables of `.env` files are added below it, or `variables` has both. With
    `answers` no slow provider is called for a secret: backends without an answer are in `waits` (but not under
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
        self.sections = Sections(environ, problems)
        self.entries: dict[str, Entry] = {}
        self.read: set[Path] = {source.resolve()}
        self.links: set[Path] = {source.absolute()}
        """The same files as they are named (a link may be replaced), and the files that backends name."""

    def run(self) -> Loaded:
        self.add_file(self.document)
        for included in self.sections.values.pop("include", ()):
            self.include(included)
        self.lock()
        settings: SecretsConfig = self.sections.values.get("secrets", SecretsConfig())
        resolver = self.resolver(settings)
        own = own_keys(
            resolver,
            self.sections.values.get("policy"),
            self.sections.values.get("state", StateConfig()),
            self.document.problem,
            self.sections.report,
        )
        built = self.build(settings, resolver)
        self.check_names(built)
        self.check_shells(built)
        pins = self.source.absolute().with_name(PINS_FILE)
        self.links.add(pins)
        for path in sorted(self.protected()):
            if others_may_write(path):
                self.report_open(path)
        unresolved = [p for p in self.problems if p.unresolved] if settings.strict else []
        if fatal := [*self.sections.fatal, *unresolved]:
            self.refuse(fatal)
        return self.result(built, settings, resolver, own)

    @property
    def locked(self) -> bool:
        return self.sections.values.get("profile") == profile.LOCKED

    @property
    def exceptions(self) -> frozenset[str]:
        """Keys that may weaken the profile."""
        return frozenset(self.sections.values.get("profile_exceptions", ()))

    def lock(self) -> None:
        """Set the defaults of the profile `locked`, and report what weakens it."""
        for name in sorted(self.exceptions):
            if not self.locked or not profile.is_locked_key(name):
                found = "no effect: " + (
                    "locked does not fix this key" if self.locked else "the profile is not locked"
                )
                where = ("profile_exceptions", name)
                self.problems.append(self.document.problem(where, found, severity="warning"))
        if self.locked:
            self.sections.values, findings = profile.lock(self.sections.values, self.exceptions)
            self.report_weakening(findings)

    def check_shells(self, built: Mapping[str, Built]) -> None:
        """Report the command lines that run through a shell, which weakens the profile `locked`."""
        if self.locked:
            backends = {name: one.config for name, one in built.items()}
            self.report_weakening(profile.shells(backends, self.exceptions))

    def report_weakening(self, findings: Iterable[profile.Finding]) -> None:
        for path, found, allowed in findings:
            remedy = f"Remove it, or name {dotted(path)} under profile_exceptions with a reason"
            self.sections.fatal.append(self.document.problem(path, found, allowed, remedy))

    def refuse(self, problems: list[Problem]) -> NoReturn:
        """Raise with these problems and all other errors, those of backends included; its details have warnings too."""
        found = sorted(dict.fromkeys([*problems, *self.problems]), key=self.place)
        raise ConfigError(
            "\n".join(p.text() for p in found if p.severity == "error"),
            hint="Correct what is named above; `gatemini config check` shows everything without starting.",
            details={"problems": [p.to_json() for p in found]},
        )

    def add_file(self, document: Document) -> None:
        if is_client_document(document):
            self.problems += client_faults(document)
            self.add_entries(client_entries(document, self.context))
            return
        self.sections.faults(document)
        for key, value in document.value.items():
            if key == "backends":
                self.add_entries(self.native_entries(document, value))
            else:
                self.sections.add(document, key, value)

    def native_entries(self, document: Document, value: Any) -> list[Entry]:
        if not isinstance(value, dict):
            if value is not None:
                found = "found a list" if isinstance(value, list) else "found a single value"
                remedy = "Write `name:` with its keys indented below"
                self.problems.append(document.problem(("backends",), found, "a mapping by name", remedy))
            return []
        entries: list[Entry] = []
        for name, raw in value.items():
            entry = Entry(name, raw if isinstance(raw, dict) else {}, document, ("backends", name))
            if not isinstance(raw, dict):
                what = "found nothing" if raw is None else "is not a mapping"
                found = f"{what}, so it has neither command nor url"
                entry.notes.append(entry.problem((), found, allowed="command, url, module or tools"))
            entries.append(entry)
        return entries

    def add_entries(self, entries: list[Entry]) -> None:
        """Backends of one name in two files are never merged: the first stays, the second is reported."""
        for entry in entries:
            first = self.entries.setdefault(entry.name, entry)
            if first is not entry and first.raw != entry.raw:
                where = f"{first.document.path}:{first.document.line(first.prefix)}"
                found = f"{entry.name} is already defined in {where}, and differently"
                remedy = "Rename one of the two; the first is used"
                self.problems.append(entry.problem((), found, remedy=remedy))

    def include(self, written: Path) -> None:
        path = written_path(str(written), self.context.home, self.source.absolute().parent)
        resolved, here = path.resolve(), ("include",)
        if resolved in self.read:
            return
        self.read.add(resolved)
        self.links.add(path)
        if len(self.read) > _MAX_INCLUDES:
            self.problems.append(self.document.problem(here, f"more than {_MAX_INCLUDES} files"))
            return
        try:
            document = read_document(path)
        except ConfigError as error:
            remedy = "Check the path in include" if not path.exists() else error.hint or ""
            self.problems.append(self.document.problem(here, error.message, "", remedy))
            return
        if not is_client_document(document):
            for key in [key for key in document.value if key not in _INCLUDABLE]:
                found = f"{key} has no effect in an included file"
                self.sections.report(document.problem((key,), found, ", ".join(_INCLUDABLE)), key)
                del document.value[key]
        self.add_file(document)

    def resolver(self, settings: SecretsConfig) -> SecretResolver:
        later = self.answers is not None and not settings.strict
        return SecretResolver(
            self.environ,
            settings,
            self.source.absolute().parent,
            self.context.home,
            self.answers if later and self.answers is not None else SecretAnswers(),
            later,
            programs=not self.locked or profile.RUNS_FOR_SECRETS in self.exceptions,
        )

    def build(self, settings: SecretsConfig, resolver: SecretResolver) -> dict[str, Built]:
        builder = Builder(
            self.environ,
            self.process,
            resolver,
            frozenset(settings.redact),
            self.directory / STORE,
            frozenset(self.sections.values.get("daemon", DaemonConfig()).session_env),
            resolves=not self.sections.fatal,
        )
        built = {name: builder.build(entry) for name, entry in self.entries.items()}
        self.links |= resolver.files | {e.env_file for e in self.entries.values() if e.env_file is not None}
        for one in built.values():
            self.problems += one.problems
        return built

    def check_names(self, built: Mapping[str, Built]) -> None:
        """Warn of fallbacks and targets of aliases that do not exist."""
        for name, one in built.items():
            for at, other in enumerate(one.config.fallback_chain if one.config else ()):
                if other not in built or other == name:
                    near = closest(other, [n for n in built if n != name])
                    found = f"there is no other backend {other}" + (f", did you mean {near}?" if near else "")
                    entry = self.entries[name]
                    self.problems.append(entry.problem(("fallback_chain", at), found, severity="warning"))
        spaces = {*built, *(one.config.namespace or "" for one in built.values() if one.config)} - {""}
        composites: dict[str, CompositeTool] = self.sections.values.get("composite_tools", {})
        aliases = self.sections.values.get("aliases", {})
        for path, found in missing_targets(aliases, spaces, {*composites, *self.sections.faulty}):
            document = self.sections.writers[path[:2]]
            self.problems.append(document.problem(path, found, severity="warning"))
        policy: PolicyConfig | None = self.sections.values.get("policy")
        for path, found in () if policy is None else missing_backends(policy, spaces):
            self.problems.append(self.document.problem(path, found, severity="warning"))

    def result(
        self, built: Mapping[str, Built], settings: SecretsConfig, resolver: SecretResolver, own: OwnKeys
    ) -> Loaded:
        backends: dict[str, BackendConfig] = {n: b.config for n, b in built.items() if b.config is not None}
        secrets = [pair for one in built.values() for pair in one.secrets]
        hidden = (*settings.redact, *_PROGRAM_TOKENS)
        secrets += [(name, self.environ[name]) for name in hidden if self.environ.get(name)]
        secrets += own.secrets
        for section in ("http", "state"):
            if section in self.sections.values:
                secrets += self.sections.values[section].secrets
        return Loaded(
            config=Config.model_construct(**{**_defaults(), **self.sections.values, "backends": backends}),
            problems=tuple(sorted(dict.fromkeys(self.problems), key=self.place)),
            disabled={n: b.reason for n, b in built.items() if b.reason is not None},
            secrets=tuple(dict.fromkeys(secrets)),
            source=self.source,
            keys={n: BackendKeys(b.keys, b.missing) for n, b in built.items()},
            origins={n: f"{e.document.path}:{e.document.line(e.prefix)}" for n, e in self.entries.items()},
            files=frozenset(self.read | self.links),
            written={n: b.written for n, b in built.items() if b.written is not None},
            waits={n: ", ".join(dict.fromkeys(b.waits)) for n, b in built.items() if b.waits and b.config},
            resolver=resolver,
            faulty=self.sections.faulty,
            spaces=self.spaces(built),
            webhook_key=own.webhook,
            state_keys=own.state,
            variables=self.environ,
        )

    def protected(self) -> set[Path]:
        """What nobody else may write: files that were read, or would be if they were there, their folders, the audit log."""
        env = self.source.absolute().with_name(".env")
        files = {path.resolve() for path in (*self.read, *self.links, env)}
        return files | {path.parent for path in files if path.exists()} | self.audit_folder()

    def audit_folder(self) -> set[Path]:
        path = self.sections.values.get("audit", AuditConfig()).path
        return set() if path is None else {self.source.absolute().parent / path}

    def report_open(self, path: Path) -> None:
        """Report a file or folder that others may write; `locked` does not start with one."""
        found = "others than its owner may write this file, and so start programs as you"
        if path.is_dir():
            found = "everybody may replace the files in this folder, and so start programs as you"
        if path in self.audit_folder():
            found = "everybody may replace the files in this folder, and so the audit log"
        if path.name == PINS_FILE:
            found = "others than its owner may write this file, and so approve what servers have changed"
        place = (str(path), None, "", found, "", f"Run `chmod go-w {path}`")
        if self.locked:
            self.sections.fatal.append(Problem(*place))
        else:
            self.problems.append(Problem(*place, "warning"))

    def spaces(self, built: Mapping[str, Built]) -> frozenset[str]:
        written = [entry.raw.get("namespace") for entry in self.entries.values()]
        known = [one.config.namespace for one in built.values() if one.config is not None]
        return frozenset({str(name) for name in (*written, *known) if name}) | {
            *self.sections.values.get("aliases", {})
        }

    def place(self, problem: Problem) -> tuple[bool, str, int]:
        """The order of findings: the main file first, each file from top to bottom."""
        return problem.file != str(self.source), problem.file, problem.line or 0


def _defaults() -> dict[str, Any]:
    config = Config()
    return {name: getattr(config, name) for name in Config.model_fields}
