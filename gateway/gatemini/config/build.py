"""One entry → one `BackendConfig`, or the reasons why it is disabled.

The order is fixed: variables → model → `secretref:` → model again → what a header, URL or argument may hold. All
findings of an entry come at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gatemini.config.adapter_file import with_adapter
from gatemini.config.documents.find import written_path
from gatemini.config.entries import GUESSED_WORDS, Entry
from gatemini.config.entry_values import encoded, get_in, missing, set_in
from gatemini.config.model.allowed_values import value_faults
from gatemini.config.model.backend import BackendConfig, as_text
from gatemini.config.problems import KeyPath, Problem, dotted, explain, unknown_key, written_keys
from gatemini.config.session_values import marker, misplaced, session_names
from gatemini.config.variables.errors import SecretPending, SecretUnavailable
from gatemini.config.variables.interpolate import (
    Expanded,
    Reference,
    TemplateError,
    expand,
    expand_url,
    parse_template,
)
from gatemini.config.variables.redaction import SecretText, is_ordinary
from gatemini.config.variables.references import SecretResolver, read_private
from gatemini.errors import ConfigError

_SECRET_PLACES = frozenset(("env", "headers", "client_secret"))
_REFERENCE_PLACES = frozenset(("command", "args", "env", "url", "headers", "oauth", "prerequisite"))
_TEXT_PLACES = frozenset(("command", "args", "env", "headers", "url", "cwd"))
_LITERAL = frozenset(("description", "input_schema", "annotations"))
"""Below a CLI tool: prose and schemas, where `$` means itself."""

SWITCHED_OFF = "disabled: true in the configuration"
"""The reason of a backend that is disabled on purpose."""


@dataclass(slots=True)
class Built:
    """A built entry. `config` is None when it is disabled, and `reason` says why.

    `written` is the configuration with its `secretref:` texts; while `waits` names some without a value, `config` is
    the same.
    """

    config: BackendConfig | None = None
    reason: str | None = None
    written: BackendConfig | None = None
    waits: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    secrets: list[tuple[str, str]] = field(default_factory=list)
    keys: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Builder:
    """What every entry is built with: variables, secrets, and the folder of stored inputs."""

    environ: Mapping[str, str]
    process: Mapping[str, str]
    resolver: SecretResolver
    redact: frozenset[str]
    store: Path
    session_env: frozenset[str] = frozenset()
    """Variables whose value is that of each session."""
    resolves: bool = True
    """False when the configuration is refused anyway, so that no secret is fetched."""

    def build(self, entry: Entry) -> Built:
        """Never raises: an error of one entry disables that entry."""
        return _Work(self, entry).run()


class _Work:
    """Builds one entry."""

    def __init__(self, builder: Builder, entry: Entry) -> None:
        self.builder = builder
        self.entry = entry
        self.built = Built(problems=list(entry.notes))
        self.names: dict[str, bool] = {}
        self.origin: dict[KeyPath, list[str]] = {}
        self.secret_paths: set[KeyPath] = set()
        self.references: set[KeyPath] = set()
        self.stored: set[str] = set()
        """Inputs whose value is from the secret store, not a default."""
        self.of_session: set[tuple[str, str]] = set()
        """Keys, and the values of the session that they name."""
        self.unset_in: dict[tuple[str, str], list[KeyPath]] = {}
        """Where each reference without a value is."""
        self.incomplete: set[KeyPath] = set()
        """Places of variables without a value, where no other check makes sense."""

    def run(self) -> Built:
        entry, built = self.entry, self.built
        faults = [f for f in entry.document.faults if f.path[: len(entry.prefix)] == entry.prefix]
        for fault in faults:
            self.error(fault.path[len(entry.prefix) :], fault.found, remedy=fault.remedy)
        if entry.is_self:
            note = entry.problem((), "is this gateway itself and was skipped", severity="warning")
            built.problems.append(note)
            built.reason = note.reason()
            return built
        if not entry.raw and self.failed():
            self.finish(None)  # not a mapping: that keys are missing is no further finding
            return built
        if self.is_disabled():
            built.reason = SWITCHED_OFF
            return built
        raw = self.with_adapter_file(entry.raw)
        for extra in ("name", "cli_tools"):
            if extra in raw:
                found, allowed, remedy = unknown_key(extra, written_keys(BackendConfig))
                self.error((extra,), found, allowed, remedy)
        raw = {k: v for k, v in raw.items() if k not in ("name", "cli_tools")}
        expanded = {key: self.expand(value, (key,)) for key, value in raw.items()}
        self.add_inherited(expanded)
        self.hide_env_file(expanded)
        self.check_session_values(expanded)
        config = self.validate(expanded)
        if config is not None and self.references and self.builder.resolves:
            built.written = config
            self.resolve(expanded)
            if not built.waits:
                config = self.validate(expanded) if not self.failed() else None
        if config is not None and not built.waits:
            self.check(config)
        self.finish(config)
        return built

    def hide_env_file(self, expanded: dict[str, Any]) -> None:
        env = expanded.get("env")
        for name in sorted(self.entry.from_env_file):
            value = env.get(name) if isinstance(env, dict) else None
            if isinstance(value, str) and not is_ordinary(name):
                self.built.secrets.append((name, value))
                self.secret_paths.add(("env", name))

    def check_session_values(self, expanded: dict[str, Any]) -> None:
        """Give each session an instance of a backend that names a value of the session."""
        for path, found, allowed in misplaced(self.of_session, self.entry.raw.get("instance_mode")):
            self.error(path, found, allowed)
        if self.of_session:
            expanded["instance_mode"] = "dedicated"

    def error(
        self, path: KeyPath, found: str, allowed: str = "", remedy: str = "", *, unresolved: bool = False
    ) -> None:
        self.built.problems.append(
            self.entry.problem(path, found, allowed=allowed, remedy=remedy, unresolved=unresolved)
        )

    def failed(self) -> list[Problem]:
        return [p for p in self.built.problems if p.severity == "error"]

    def is_disabled(self) -> bool:
        value = self.entry.raw.get("disabled")
        if isinstance(value, str):
            value = self.expand(value, ("disabled",))
            return str(value).strip().lower() in _SWITCHED_ON
        return value is True

    def with_adapter_file(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The entry with the tools and the `health_check` of its `adapter_file`; inline ones win."""
        if "adapter_file" not in raw:
            return raw
        raw = dict(raw)
        written = self.expand(raw.pop("adapter_file"), ("adapter_file",))
        if not isinstance(written, str):
            self.error(("adapter_file",), "is not a path", "the path of a YAML or JSON file")
            return raw
        home, base = self.builder.resolver.home, self.entry.document.path.parent
        path = written_path(written, home, base).absolute()
        self.builder.resolver.files.add(path)
        try:
            return with_adapter(raw, path)
        except ConfigError as error:
            self.error(("adapter_file",), error.message, remedy=error.hint or "")
            return raw

    def expand(self, value: Any, path: KeyPath) -> Any:
        """The value with variables put in; scalars that a process gets as text keep their spelling."""
        if isinstance(value, dict):
            literal = path[0] == "tools" and len(path) == 2
            return {
                key: inner if literal and key in _LITERAL else self.expand(inner, (*path, key))
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.expand(inner, (*path, i)) for i, inner in enumerate(value)]
        if isinstance(value, str):
            return self.expand_text(value, path)
        if value is not None and (path[0] in _TEXT_PLACES or path[-1] == "command"):
            return self.entry.document.texts.get(self.entry.source_path(path), as_text(value))
        return value

    def expand_text(self, text: str, path: KeyPath) -> str:
        if "secretref:" in text:
            self.references.add(path)
        try:
            segments = parse_template(text, dollars=self.entry.dollars)
        except TemplateError as error:
            self.error(path, str(error))
            return text
        result = expand_url(segments, self.lookup) if path == ("url",) else expand(segments, self.lookup)
        self.remember(result, path)
        return result.text

    def lookup(self, reference: Reference) -> str | None:
        if reference.kind == "session" or (
            reference.kind == "variable" and reference.name in self.builder.session_env
        ):
            default = reference.default
            return marker(reference.name, None if default is None else expand(default, self.lookup).text)
        if reference.kind == "variable":
            return self.builder.environ.get(reference.name)
        if reference.kind == "word":
            return self.entry.words.get(reference.name)
        kept = self.builder.store / reference.name
        self.builder.resolver.files.add(kept)
        try:
            value = read_private(kept)
        except SecretUnavailable:
            return self.entry.inputs.get(reference.name)
        self.stored.add(reference.name)
        return value

    def remember(self, result: Expanded, path: KeyPath) -> None:
        """Note which values are secret in this place, and which are missing."""
        place = str(path[1]) if path[0] in ("prerequisite", "oauth") and len(path) > 1 else str(path[0])
        secret = result.used if place in _SECRET_PLACES else result.secret
        for reference, value in result.used:
            if any(session_names(value)):
                self.of_session.add((str(path[0]), reference.name))
                continue
            # A value of the secret store is a secret in every place, a variable only in some.
            kept = reference.kind == "input" and reference.name in self.stored
            hidden = kept or ((reference, value) in secret and not is_ordinary(reference.name))
            if reference.kind != "word" and (hidden or reference.name in self.builder.redact):
                self.built.secrets.append((reference.name, value))
                self.secret_paths.add(path)
            if reference.kind == "variable":
                self.names[reference.name] = True
            self.origin.setdefault(path, []).append(reference.name)
        for word, value in dict.fromkeys((r.name, v) for r, v in result.used if r.kind == "word"):
            if word in GUESSED_WORDS:
                note = f"${{{word}}} is read as {value}: no editor says which folder is open"
                remedy = "Write the path out if another one is meant"
                self.built.problems.append(self.entry.problem(path, note, remedy=remedy, severity="warning"))
        for reference in result.missing:
            self.names[reference.name] = False
            self.incomplete.add(path)
            self.unset(reference, path)

    def unset(self, reference: Reference, path: KeyPath) -> None:
        """Note a reference without a value; one that is in several places is one finding."""
        found, allowed, remedy = missing(reference)
        places = self.unset_in.setdefault((reference.kind, reference.name), [])
        if path in places:
            return
        places.append(path)
        if len(places) == 1:
            self.error(path, found, allowed, remedy, unresolved=True)
            return
        first = self.entry.problem(places[0], "").key
        others = ", ".join(map(dotted, places[1:]))
        self.built.problems = [
            replace(problem, found=f"{found} (also used in {others})")
            if problem.unresolved and problem.key == first and problem.found.startswith(found)
            else problem
            for problem in self.built.problems
        ]

    def add_inherited(self, expanded: dict[str, Any]) -> None:
        """Add variables of `inherit_env` that only a .env file sets: the child could not inherit those."""
        names, env = expanded.get("inherit_env"), expanded.setdefault("env", {})
        if not isinstance(names, list) or not isinstance(env, dict):
            return
        environ, process = self.builder.environ, self.builder.process
        of_session = [name for name in names if name in self.builder.session_env]
        expanded["inherit_env"] = [name for name in names if name not in of_session]
        for name in of_session:
            env.setdefault(name, marker(name, ""))
            self.of_session.add(("env", name))
        for name in expanded["inherit_env"]:
            if isinstance(name, str) and name in environ and name not in process:
                env.setdefault(name, environ[name])

    def validate(self, expanded: dict[str, Any]) -> BackendConfig | None:
        try:
            config = BackendConfig.model_validate({**expanded, "name": self.entry.name})
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path, found, allowed, remedy = explain(detail, BackendConfig, self.entry.raw)
                if path in self.incomplete:
                    continue
                if path == ("name",):
                    path, found = (), f"found the name {self.entry.name!r}"
                finding = self.entry.problem(path, found, allowed=allowed, remedy=remedy)
                if finding not in self.built.problems:
                    self.built.problems.append(finding)
            return None
        odd = [self.entry.problem((key,), why, severity="warning") for key, why in config.without_effect]
        self.built.problems += [each for each in odd if each not in self.built.problems]
        return config

    def resolve(self, expanded: dict[str, Any]) -> None:
        """Put secrets in where the file itself has `secretref:`, never where the value of a variable has it."""
        for path in sorted(self.references, key=str):
            place = str(path[0])
            text = get_in(expanded, path)
            if place not in _REFERENCE_PLACES:
                allowed = "command, args, env, url, headers, oauth, prerequisite"
                self.error(path, "a secretref: is not resolved here", allowed)
                continue
            try:
                value, found = self.builder.resolver.resolve(text)
            except SecretPending as error:
                self.built.waits.append(error.message)
                continue
            except SecretUnavailable as error:
                self.error(path, error.message, remedy=error.remedy, unresolved=True)
                continue
            if place == "url" and (len(found) != 1 or value != found[0][1]):
                value = encoded(text, found)
            set_in(expanded, path, value)
            self.built.secrets += found
            self.secret_paths.add(path)
            self.origin[path] = [name for name, _ in found]

    def check(self, config: BackendConfig) -> None:
        for fault in value_faults(config, self.value_origin):
            if fault.path in self.incomplete:
                continue
            self.built.problems.append(
                self.entry.problem(
                    fault.path,
                    fault.found,
                    allowed=fault.allowed,
                    remedy=fault.remedy,
                    severity=fault.severity,
                )
            )

    def value_origin(self, path: KeyPath) -> str:
        """`the value of KEY` when a variable or secret was put in, else `the value`."""
        names = self.origin.get(path)
        return f"the value of {', '.join(names)}" if names else "the value"

    def finish(self, config: BackendConfig | None) -> None:
        env = self.entry.raw.get("env")
        own = [k for k in env if isinstance(k, str)] if isinstance(env, dict) else []
        needed = list(config.required_keys) if config else []
        unset = [k for k in needed if not (config and config.env.get(k)) and not self.builder.environ.get(k)]
        self.built.keys = tuple(dict.fromkeys([*own, *self.names, *needed]))
        self.built.missing = tuple(
            dict.fromkeys([*(k for k, there in self.names.items() if not there), *unset])
        )
        errors = self.failed()
        if errors:
            self.built.reason = "; ".join(dict.fromkeys(p.reason() for p in errors))
        elif config is not None:
            self.built.config = self.masked(config)

    def masked(self, config: BackendConfig) -> BackendConfig:
        """The configuration with its secrets as texts that do not print themselves."""
        update: dict[str, Any] = {}
        for place in ("env", "headers"):
            values: dict[str, str] = getattr(config, place)
            update[place] = {
                k: SecretText(v) if (place, k) in self.secret_paths else v for k, v in values.items()
            }
        update["args"] = tuple(
            SecretText(v) if ("args", i) in self.secret_paths else v for i, v in enumerate(config.args)
        )
        if config.url is not None and ("url",) in self.secret_paths:
            update["url"] = SecretText(config.url)
        if config.oauth is not None and config.oauth.client_secret is not None:
            secret = SecretText(config.oauth.client_secret)
            self.built.secrets.append((f"oauth of {config.name}", secret))
            update["oauth"] = config.oauth.model_copy(update={"client_secret": secret})
        return config.model_copy(update=update)


_SWITCHED_ON = ("true", "1", "yes", "on", "y", "t")
"""The texts that the model takes for true."""
