"""The keychain of the operating system: read by `secretref:keyring:NAME`, written by `gatemini secret set --keyring`.

A keychain cannot list its entries, so the names (never the values) are kept in a private file beside the configuration.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gatemini.config.documents.document import read_document
from gatemini.config.model.schema import KeyringConfig
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.errors import ConfigError
from gatemini.processes.own_files import write_private

if TYPE_CHECKING:
    from types import ModuleType

KEYCHAIN_NAMES = "keyring.json"
"""File beside the configuration with the names of stored values."""
KEYRING_SECONDS = 20.0
"""How long the keychain may take: it may ask its owner to unlock it."""


def read_keychain(settings: KeyringConfig, path: str) -> str:
    """The value of `NAME` or `SERVICE/NAME`. Blocks; raises SecretUnavailable."""
    service, name = _place(settings, path)
    value = _ask(lambda library: library.get_password(service, name))
    if not value:
        remedy = f"gatemini secret set --keyring {path}"
        raise SecretUnavailable(f"the keychain has no {name} of the service {service}", remedy)
    return str(value)


def _place(settings: KeyringConfig, path: str) -> tuple[str, str]:
    """(service, name); the configured service for a name alone."""
    service, slash, name = path.rpartition("/")
    return (service, name) if slash else (settings.service, path)


def _library() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise SecretUnavailable(
            "the keychain needs the extra keyring", "In the checkout of gatemini: pip install '.[keyring]'"
        ) from None
    return keyring


def _ask(question: Callable[[Any], Any]) -> Any:
    """Call the library within `KEYRING_SECONDS`.

    The thread is a daemon: a keychain that hangs must not keep the process from ending.
    """
    library = _library()
    answers: list[Any] = []
    faults: list[Exception] = []

    def work() -> None:
        try:
            answers.append(question(library))
        except Exception as error:  # noqa: BLE001 - the library's backends raise what they like
            faults.append(error)

    thread = threading.Thread(target=work, name="gatemini-keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if faults:
        kind = type(faults[0]).__name__
        what = "there is no keychain here" if kind == "NoKeyringError" else f"the keychain failed ({kind})"
        raise SecretUnavailable(what, "`python -m keyring diagnose` shows which one is used")
    if not answers:
        raise SecretUnavailable(
            f"the keychain gave no answer within {KEYRING_SECONDS:g} s", "Unlock it, then try again"
        )
    return answers[0]


def keyring_settings(source: Path | None) -> KeyringConfig:
    """`secrets.keyring` of a configuration that may have errors elsewhere: it lacks the value to be set."""
    if source is None:
        return KeyringConfig()
    try:
        secrets = read_document(source).value.get("secrets")
        written = secrets.get("keyring") if isinstance(secrets, dict) else None
        return KeyringConfig.model_validate(written or {})
    except (ConfigError, ValidationError):
        return KeyringConfig()


@dataclass(frozen=True, slots=True)
class Keychain:
    """The entries that gatemini wrote; `index` is the file with their names."""

    settings: KeyringConfig
    index: Path

    def put(self, path: str, value: str) -> str:
        """Store a value; returns the service. Raises `ConfigError` when there is no keychain."""
        service, name = _place(self.settings, path)
        if not service or not name or any(c.isspace() for c in path):
            raise ConfigError(
                f"{path!r} is not a keychain name", hint="Use NAME or SERVICE/NAME without blanks."
            )
        try:
            _ask(lambda library: library.set_password(service, name, value))
        except SecretUnavailable as error:
            raise ConfigError(error.message, hint=error.remedy) from None
        self._write({*self.names(), path})
        return service

    def names(self) -> list[str]:
        try:
            found = json.loads(self.index.read_bytes())
        except (OSError, ValueError):
            return []
        return sorted(name for name in found if isinstance(name, str)) if isinstance(found, list) else []

    def remove(self, path: str) -> bool:
        """Delete a value; False when the keychain does not have it."""
        service, name = _place(self.settings, path)
        try:
            there = _ask(lambda library: library.get_password(service, name)) is not None
            if there:
                _ask(lambda library: library.delete_password(service, name))
        except SecretUnavailable as error:
            raise ConfigError(error.message, hint=error.remedy) from None
        self._write(set(self.names()) - {path})
        return there

    def _write(self, names: set[str]) -> None:
        self.index.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self.index, json.dumps(sorted(names)) + "\n")
