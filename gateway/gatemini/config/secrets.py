"""Secrets: where `secretref:` values come from, the text type that does not print itself, and redaction.

Providers: `env`, `file` (private files only), `exec` (commands on `secrets.exec_allow`), `keyring`, `vault` and
`bws` (whose last path segment is read as a variable while it is not enabled). Above: load, app (redaction of all
that leaves). Below: providers, the file system.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from gatemini.config.bitwarden import Bitwarden
from gatemini.config.commands import Commands
from gatemini.config.document import written_path
from gatemini.config.interpolate import PATH_SAFE
from gatemini.config.providers import (
    MAX_SECRET_BYTES,
    Vault,
    read_keychain,
    secret_text,
)
from gatemini.config.schema import SecretsConfig
from gatemini.config.unavailable import SecretAwaited, SecretSilent, SecretUnavailable
from gatemini.piecewise.steps import found, joined, part, stretches

CUT_MARKS = ("…", "...")
"""What stands where a text was cut; every place that cuts one leaves it."""
_NEAR = 16
"""Characters beside a piece in which such a mark is looked for: there may be blanks between them."""
MIN_REDACTED = 6
"""Shorter values occur by chance in any text; hiding them would only garble answers."""
_MIN_LINE = 12
"""Lines of a multi-line secret (a key file) are hidden one by one from this length on."""
_MAX_NAME = 60
_REFERENCE = re.compile(r"secretref:([A-Za-z][A-Za-z0-9_-]*):([^\s&\"'<>]+)")
_WHOLE = re.compile(r"secretref:([A-Za-z][A-Za-z0-9_-]*):(.+)\Z", re.DOTALL)
PROVIDERS = ("env", "file", "exec", "keyring", "vault", "bws")
OPENERS = ("env", "file", "exec", "keyring")
"""Providers that need no token, and so may hold that of another."""
PROGRAMS = ("exec", "keyring", "vault", "bws")
"""Providers that may take their time, and whose own words do not say which reference they were asked for."""
_SECRET_WORD = re.compile(
    r"(?:^|[_\-.])(?:token|secret|password|passwd|pwd|passphrase|credentials?|auth|authorization|bearer|cookie|"
    r"(?:api|access|private|secret|auth|license|subscription|encryption|signing)[_\-.]?key|apikey|key|pat|dsn)(?:$|[_\-.])",
    re.IGNORECASE,
)
_ORDINARY = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SHELL", "TERM", "PWD", "HOSTNAME")
)
"""What every child gets anyway: hiding a home directory in all answers would hide paths, not secrets."""


class SecretText(str):
    """A text whose repr is masked; it is the real value only where it is used as text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'«secret»'"


def looks_secret(name: str) -> bool:
    """Whether a variable or header name says that its value is a secret."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _SECRET_WORD.search(spaced) is not None


def is_ordinary(name: str) -> bool:
    """Variables of the login itself (HOME, PATH …), which are never secrets."""
    return name in _ORDINARY or name.startswith(("XDG_", "LC_"))


@dataclass(slots=True)
class SecretAnswers:
    """What providers that may take their time have answered, kept from one reading of the configuration to the next."""

    values: dict[str, str | SecretUnavailable] = field(default_factory=dict, repr=False)
    tokens: dict[str, str] = field(default_factory=dict, repr=False)
    """The tokens the providers themselves were opened with, for redaction."""


@dataclass(slots=True)
class SecretResolver:
    """Resolves `secretref:<provider>:<path>`; each reference is asked for once."""

    environ: Mapping[str, str]
    settings: SecretsConfig
    base: Path
    home: Path
    answers: SecretAnswers = field(default_factory=SecretAnswers)
    later: bool = False
    """Whether programs and servers are asked by `ask` alone: without their answer a reference is `SecretAwaited`."""
    files: set[Path] = field(default_factory=set)
    """The files that secrets were read from, or would be."""
    slow: list[str] = field(default_factory=list)
    """The references that take a program or a server, as they were met."""
    commands: Commands = field(default_factory=Commands)
    _quick: dict[str, str | SecretUnavailable] = field(default_factory=dict)
    _silent: dict[str, SecretSilent] = field(default_factory=dict)
    """Providers that did not answer: the next secret does not wait for them a second time."""
    _vault: Vault | None = None
    _bitwarden: Bitwarden | None = None

    def resolve(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        """The text with its references replaced, and (name, value) of each. Raises `SecretUnavailable`."""
        whole = _WHOLE.match(text)
        if (
            whole
            and (whole[1] in ("exec", "file") or not re.search(r"\s", text))
            and "secretref:" not in whole[2]
        ):
            value = self.fetch(whole[1], whole[2])
            return value, [(secret_name(whole[1], whole[2]), value)]
        found: list[tuple[str, str]] = []

        def one(match: re.Match[str]) -> str:
            value = self.fetch(match[1], match[2])
            found.append((secret_name(match[1], match[2]), value))
            return value

        result = _REFERENCE.sub(one, text)
        if not found:
            raise SecretUnavailable("a secretref: that is not secretref:<provider>:<path>", _providers())
        return result, found

    def fetch(self, provider: str, path: str) -> str:
        reference = f"{provider}:{path}"
        slow = self.takes_time(provider)
        kept = self.answers.values if slow else self._quick
        if slow:
            self.slow.append(reference)
        if reference not in kept:
            if slow and self.later:
                raise SecretAwaited(f"waits for {_shown(provider, path)}")
            kept[reference] = self._outcome(provider, path)
        known = kept[reference]
        if isinstance(known, SecretUnavailable):
            raise known
        return known

    def takes_time(self, provider: str) -> bool:
        return provider in PROGRAMS and (provider != "bws" or self.settings.bws.enabled)

    def ask(self, reference: str) -> str | SecretUnavailable:
        """Ask for a slow reference, also once more; blocks within the provider's bound. The answer is not kept."""
        provider, _, path = reference.partition(":")
        return self._outcome(provider, path)

    def _outcome(self, provider: str, path: str) -> str | SecretUnavailable:
        try:
            if provider in self._silent:
                raise self._silent[provider]
            return self._ask(provider, path)
        except SecretUnavailable as error:
            if isinstance(error, SecretSilent) and provider != "exec":  # whose commands differ
                self._silent[provider] = error
            named = (
                error.message if provider not in PROGRAMS else f"{_shown(provider, path)}: {error.message}"
            )
            return SecretUnavailable(named, error.remedy)

    def _ask(self, provider: str, path: str) -> str:
        if provider == "env":
            return self._variable(path, path)
        if provider == "bws" and not self.settings.bws.enabled:
            return self._variable(path.rstrip("/").rsplit("/", 1)[-1], path)
        if provider == "bws":
            if self._bitwarden is None:
                token = self._token(
                    "BWS_ACCESS_TOKEN", "secrets.bws.access_token", self.settings.bws.access_token
                )
                settings = self.settings.bws.model_copy(update={"access_token": token})
                self._bitwarden = Bitwarden(settings, self.environ)
            return self._bitwarden.read(path)
        if provider == "keyring":
            return read_keychain(self.settings.keyring, path)
        if provider == "vault":
            if self._vault is None:
                token = self._token("VAULT_TOKEN", "secrets.vault.token", self.settings.vault.token)
                opened = self.settings.vault.model_copy(update={"token": token})
                self._vault = Vault(opened, self.environ)
            return self._vault.read(path)
        if provider == "file":
            return self._file(path)
        if provider == "exec":
            return self._exec(path)
        raise SecretUnavailable(f"unknown secret provider {provider}", _providers())

    def _token(self, name: str, key: str, written: str | None) -> str | None:
        """A provider's own token, which may lie with a simpler provider."""
        if written is not None and "secretref:" in written:
            asked = {match[1] for match in _REFERENCE.finditer(written)}
            if not asked or not asked <= set(OPENERS):
                allowed = ", ".join(OPENERS)
                raise SecretUnavailable(f"{key} is not taken from there", f"Use one of {allowed}")
            opener = replace(
                self, later=False, slow=[], answers=SecretAnswers()
            )  # whoever asks for a token has time for it
            try:
                written = opener.resolve(written)[0]
            except SecretUnavailable as error:
                raise SecretUnavailable(f"{key}: {error.message}", error.remedy) from None
        token = written or self.environ.get(name)
        if token:
            self.answers.tokens[name] = token
        return token

    def _variable(self, name: str, path: str) -> str:
        value = self.environ.get(name)
        if not value:
            what = "is not set" if value is None else "is empty"
            raise SecretUnavailable(f"{name} {what}", f"Set {name} in the environment or a .env file")
        return value

    def _file(self, path: str) -> str:
        file = written_path(path, self.home, self.base)
        self.files.add(file)
        return read_private(file)

    def _exec(self, line: str) -> str:
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise SecretUnavailable(f"the command cannot be split: {error}", "Close its quotes") from None
        allowed = [shlex.split(entry) for entry in self.settings.exec_allow]
        if not words or not any(entry and words[: len(entry)] == entry for entry in allowed):
            raise SecretUnavailable(
                f"the command {words[0] if words else ''!r} is not on the list secrets.exec_allow",
                "Add the command, or its first words, to secrets.exec_allow",
            )
        said = self.commands.run(words, self.environ, self.settings.exec_timeout, "secrets.exec_timeout")
        return secret_text(said, words[0])


def read_private(file: Path) -> str:
    """A secret from a file that only its owner may read; one last newline is not part of it."""
    try:
        info = file.stat()
        if not stat.S_ISREG(info.st_mode):
            raise SecretUnavailable(f"{file} is not a regular file", "Name a file")
        if os.name == "posix":
            _must_be_private(file, info)
        data = file.read_bytes() if info.st_size <= MAX_SECRET_BYTES else b""
    except FileNotFoundError:
        raise SecretUnavailable(f"there is no file {file}", "Create it with mode 0600") from None
    except OSError as error:
        raise SecretUnavailable(
            f"{file} cannot be read: {os.strerror(error.errno or 0)}", f"chmod 600 {file}"
        ) from None
    except ValueError:
        raise SecretUnavailable(f"{str(file)!r} is no file name", "Remove NUL and half characters") from None
    return secret_text(data, str(file))


def _must_be_private(file: Path, info: os.stat_result) -> None:
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o077:
        raise SecretUnavailable(f"{file} may be read by others (mode {mode:04o})", f"chmod 600 {file}")
    if info.st_uid not in (os.geteuid(), 0):
        raise SecretUnavailable(
            f"{file} belongs to another user", f"chown it to yourself, then chmod 600 {file}"
        )


def _providers() -> str:
    return f"Use one of {', '.join(f'secretref:{name}:…' for name in PROVIDERS)}"


def _shown(provider: str, path: str) -> str:
    """A reference for a message; of a command only its program."""
    return f"secretref:{secret_name(provider, path)}"


def unasked(reference: str) -> SecretUnavailable:
    """Instead of an answer, where asking itself failed."""
    provider, _, path = reference.partition(":")
    return SecretUnavailable(
        f"{_shown(provider, path)} could not be asked for", "The log of the gateway has the cause"
    )


def secret_name(provider: str, path: str) -> str:
    """What stands in `«secret NAME»`: the variable, or provider and path."""
    if provider == "env":
        return path
    words = path.split()
    text = f"{provider}:{words[0] if provider == 'exec' and words else path}"
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"


class Redactor:
    """Replaces every known secret in text that leaves by `«secret NAME»`; values in use stay as they are."""

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._names: dict[str, str] = {}
        self._order: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[tuple[str, str]]) -> None:
        """Know more secrets (a registered backend's); shorter than six characters are ignored."""
        for name, value in secrets:
            for form in _forms(str(value)):
                self._names.setdefault(form, name)
        self._order = sorted(self._names, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """The text without secrets; the longest match wins, and replacements are never scanned again.

        Texts are cut in many places before they leave, the guest among them: a piece of `MIN_REDACTED` or more
        characters that stands right before or after the mark of a cut is taken for the secret.
        """
        present = [form for form in self._order if found(text, form) >= 0]
        if present:
            text = self._without(text, present)
        if any(found(text, mark) >= 0 for mark in CUT_MARKS):
            for form in self._order:
                text = self._without_pieces(text, form)
        return text

    def _without(self, text: str, forms: Sequence[str]) -> str:
        """The text without these, the longest first, put together from what lies between them."""
        pattern = re.compile("|".join(re.escape(form) for form in forms))
        reach = max(map(len, forms)) - 1
        parts: list[str] = []
        done = 0
        for start, end in stretches(0, len(text)):
            # What begins in this stretch may end after it.
            for match in pattern.finditer(text, max(start, done), end + reach):
                if match.start() >= end:
                    break
                parts += text[done : match.start()], self._instead(match[0])
                done = match.end()
        return joined([*parts, part(text, done, len(text))])

    def _instead(self, form: str) -> str:
        return f"«secret {self._names[form]}»"

    def _without_pieces(self, text: str, form: str) -> str:
        """`tok_ABCDEF…` and `…uvwxyz` of `tok_ABCDEF…uvwxyz`."""
        head, tail = form[:MIN_REDACTED], form[-MIN_REDACTED:]
        parts: list[str] = []
        done, at = 0, found(text, head)
        while at >= 0:
            end = at + _shared(form, text[at : at + len(form)])
            if text[end : end + _NEAR].lstrip().startswith(CUT_MARKS):
                parts += text[done:at], self._instead(form)
                done = end
            at = found(text, head, max(done, at + 1))
        text = joined([*parts, part(text, done, len(text))]) if parts else text
        parts, done, at = [], 0, found(text, tail)
        while at >= 0:
            end = at + len(tail)
            before = text[max(done, end - len(form)) : end]
            start = end - _shared(form[::-1], before[::-1])
            if text[max(0, start - _NEAR) : start].rstrip().endswith(CUT_MARKS):
                parts += text[done:start], self._instead(form)
                done = end
            at = found(text, tail, max(done, at + 1))
        return joined([*parts, part(text, done, len(text))]) if parts else text

    def value(self, value: Any) -> Any:
        """The same for everything inside a JSON value or a dataclass, keys included; the value itself is left alone."""
        if not self._order:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {
                self.redact(key) if isinstance(key, str) else key: self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        if is_dataclass(value) and not isinstance(value, type):
            inner = {part.name: self.value(getattr(value, part.name)) for part in fields(value)}
            return replace(value, **inner)
        return value


def _shared(one: str, other: str) -> int:
    """Characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class RedactingFormatter(logging.Formatter):
    """A log format whose finished lines, tracebacks included, hold no secret the redactor knows."""

    def __init__(self, redactor: Redactor, form: str) -> None:
        super().__init__(form)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.redact(super().format(record))


def _forms(value: str) -> set[str]:
    """The spellings in which a value turns up: raw, in URLs, inside JSON, its lines one by one."""
    if len(value) < MIN_REDACTED:
        return set()
    forms = {value, value.strip(), quote(value, safe=""), quote(value), quote_plus(value)}
    forms.add(quote(value, safe=PATH_SAFE))
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= escaped | {json.dumps(form, ensure_ascii=False)[1:-1] for form in escaped}  # JSON inside JSON
    if "\n" in value:
        forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_LINE}
    return {form for form in forms if len(form) >= MIN_REDACTED}
