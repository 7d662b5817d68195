"""Resolve `secretref:PROVIDER:PATH`: variables, private files, the OS keychain, and commands with their presets.

A value is fetched at once, or (`later`) only by `ask`, so that slow providers do not delay the start.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gatemini.config.documents.find import written_path
from gatemini.config.model.schema import SecretsConfig
from gatemini.config.problems import closest
from gatemini.config.variables.command_presets import PRESETS, argv, run_preset
from gatemini.config.variables.commands import Commands
from gatemini.config.variables.errors import SecretPending, SecretUnavailable
from gatemini.config.variables.keychain import read_keychain
from gatemini.processes.own_files import others_may_read

MAX_SECRET_BYTES = 1 << 20
PROVIDERS = ("env", "file", "keyring", "command", *PRESETS)
SECRETREF = re.compile(r"secretref:([A-Za-z][A-Za-z0-9_-]*):([^\s&\"'<>]+)")
_WHOLE = re.compile(r"secretref:([A-Za-z][A-Za-z0-9_-]*):(.+)\Z", re.DOTALL)
_MAX_NAME = 60


@dataclass(slots=True)
class SecretAnswers:
    """What slow providers have answered, kept from one load of the configuration to the next."""

    values: dict[str, str | SecretUnavailable] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class SecretResolver:
    """Resolves the references of one loaded configuration, each at most once. `ask` is thread-safe."""

    environ: Mapping[str, str]
    settings: SecretsConfig
    base: Path
    home: Path
    answers: SecretAnswers = field(default_factory=SecretAnswers)
    later: bool = False
    """A slow reference without an answer raises SecretPending instead of being fetched."""
    programs: bool = True
    """Whether a program may be run for a secret."""
    files: set[Path] = field(default_factory=set)
    """Files that hold secrets, there or not: a change of one reloads the configuration."""
    slow: list[str] = field(default_factory=list)
    """References that need a program or the keychain, in the order in which they were met."""
    commands: Commands = field(default_factory=Commands)
    _quick: dict[str, str | SecretUnavailable] = field(default_factory=dict)
    _printed: dict[tuple[str, ...], str] = field(default_factory=dict)
    """By argv: one list of secrets serves many references."""

    def resolve(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        """The text with its references replaced, and (name, value) of each. Raises `SecretUnavailable`."""
        whole = _WHOLE.match(text)
        # Names of items and of files may hold blanks, but only where the reference is the whole text.
        blanks = whole is not None and whole[1] in ("file", "command", *PRESETS)
        if whole and "secretref:" not in whole[2] and (blanks or not re.search(r"\s", text)):
            value = self.fetch(whole[1], whole[2])
            return value, [(secret_name(whole[1], whole[2]), value)]
        found: list[tuple[str, str]] = []

        def one(match: re.Match[str]) -> str:
            value = self.fetch(match[1], match[2])
            found.append((secret_name(match[1], match[2]), value))
            return value

        result = SECRETREF.sub(one, text)
        if not found:
            raise SecretUnavailable("a secretref: without a provider and a path", _allowed())
        return result, found

    def fetch(self, provider: str, path: str) -> str:
        """The value of one reference. Raises `SecretUnavailable`."""
        self._check(provider, path)
        reference = f"{provider}:{path}"
        slow = self._is_slow(provider)
        kept = self.answers.values if slow else self._quick
        if slow:
            self.slow.append(reference)
        if reference not in kept:
            if slow and self.later:
                raise SecretPending(f"waits for secretref:{secret_name(provider, path)}")
            kept[reference] = self.ask(reference)
        known = kept[reference]
        if isinstance(known, SecretUnavailable):
            raise known
        return known

    def ask(self, reference: str) -> str | SecretUnavailable:
        """Ask the provider, again if need be; blocks within its time limit. The answer is not kept."""
        provider, _, path = reference.partition(":")
        try:
            return self._ask(provider, path)
        except SecretUnavailable as error:
            if self._is_slow(provider):  # a program's own words do not say for which reference it ran
                name = f"secretref:{secret_name(provider, path)}"
                return SecretUnavailable(f"{name}: {error.message}", error.remedy)
            return error

    def _is_slow(self, provider: str) -> bool:
        return provider not in ("env", "file") and not (provider == "bws" and self._bws_is_missing())

    def _bws_is_missing(self) -> bool:
        path = self.environ.get("PATH", os.defpath)
        return "bws" not in self.settings.commands and shutil.which("bws", path=path) is None

    def _check(self, provider: str, path: str) -> None:
        """Errors that need no program: an unknown provider, an unknown command."""
        if provider == "exec":
            raise SecretUnavailable(
                "exec: is not a provider",
                "Write the command as secrets.commands.NAME and refer to secretref:command:NAME",
            )
        if provider not in PROVIDERS:
            near = closest(provider, PROVIDERS)
            raise SecretUnavailable(
                f"unknown secret provider {provider}" + (f", did you mean {near}?" if near else ""),
                _allowed(),
            )
        if provider in ("command", *PRESETS) and not self.programs:
            raise SecretUnavailable(
                f"secretref:{provider}: runs a program, which weakens profile: locked",
                "Use secretref:env, secretref:file or secretref:keyring, or name secrets.commands under "
                "profile_exceptions with a reason",
            )
        if provider == "command":
            name = path.partition(":")[0]
            known = {*self.settings.commands, *PRESETS}
            if name not in known:
                near = closest(name, known)
                raise SecretUnavailable(
                    f"there is no secrets.commands.{name}" + (f", did you mean {near}?" if near else ""),
                    f"Write secrets: {{commands: {{{name}: [PROGRAM, ARGUMENT]}}}}",
                )

    def _ask(self, provider: str, path: str) -> str:
        if provider == "env":
            return self._variable(path)
        if provider == "file":
            file = written_path(path, self.home, self.base)
            self.files.add(file)
            return read_private(file)
        if provider == "keyring":
            return read_keychain(self.settings.keyring, path)
        name, _, argument = path.partition(":") if provider == "command" else (provider, ":", path)
        words = self.settings.commands.get(name)
        if words is not None:
            value = self._run(argv(words, argument))
        elif name == "bws" and self._bws_is_missing():
            return self._variable(argument.rstrip("/").rsplit("/", 1)[-1])
        else:
            value = run_preset(name, argument, self._run)
        return secret_text(value.encode(), name)

    def _variable(self, name: str) -> str:
        value = self.environ.get(name)
        if not value:
            what = "is not set" if value is None else "is empty"
            raise SecretUnavailable(f"{name} {what}", f"Set {name} in the environment or a .env file")
        return value

    def _run(self, words: Sequence[str]) -> str:
        key = tuple(words)
        if key not in self._printed:
            limit = self.settings.command_timeout
            output = self.commands.run(words, self.environ, limit, "secrets.command_timeout")
            try:
                self._printed[key] = output.decode()
            except UnicodeDecodeError:
                raise SecretUnavailable(f"{words[0]} printed bytes that are not UTF-8 text") from None
        return self._printed[key]


def secret_text(data: bytes, source: str) -> str:
    """The text of a secret; one last newline is not part of it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable(f"{source} gave bytes that are not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(data) > MAX_SECRET_BYTES:
        raise SecretUnavailable(f"{source} gave {'nothing' if not text else 'more than 1 MiB'}")
    return text


def read_private(file: Path) -> str:
    """A secret from a file that only its owner may read."""
    try:
        info = file.stat()
        if not stat.S_ISREG(info.st_mode):
            raise SecretUnavailable(f"{file} is not a regular file", "Name a file")
        if os.name == "posix":
            _check_private(file, info)
        if info.st_size > MAX_SECRET_BYTES:
            raise SecretUnavailable(f"{file} has more than 1 MiB", "Name a file with one secret")
        data = file.read_bytes()
    except FileNotFoundError:
        raise SecretUnavailable(f"there is no file {file}", "Create it with mode 0600") from None
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SecretUnavailable(f"{file} cannot be read: {reason}", f"chmod 600 {file}") from None
    except ValueError:
        raise SecretUnavailable(f"{str(file)!r} is not a file name", "Remove the NUL or surrogate") from None
    return secret_text(data, str(file))


def _check_private(file: Path, info: os.stat_result) -> None:
    if others_may_read(info):
        mode = stat.S_IMODE(info.st_mode)
        raise SecretUnavailable(f"{file} may be read by others (mode {mode:04o})", f"chmod 600 {file}")
    if info.st_uid not in (os.geteuid(), 0):
        raise SecretUnavailable(
            f"{file} belongs to another user", f"chown it to yourself, then chmod 600 {file}"
        )


def _allowed() -> str:
    return f"Use one of {', '.join(f'secretref:{name}:…' for name in PROVIDERS)}"


def secret_name(provider: str, path: str) -> str:
    """NAME in `«secret NAME»`: the variable, or provider and path."""
    text = path if provider == "env" else f"{provider}:{path}"
    return text if len(text) <= _MAX_NAME else text[: _MAX_NAME - 1] + "…"
