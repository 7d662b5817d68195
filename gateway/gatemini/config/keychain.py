"""Values that `gatemini secret set --keyring` keeps in the OS keychain, read by `secretref:keyring:NAME`.

Keychains cannot be asked for their entries, so the names (never values) stand in a private file beside the
configuration. Above: cli. Below: providers, document, store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gatemini.config.document import read_document
from gatemini.config.providers import in_keychain, keychain_place
from gatemini.config.schema import KeyringConfig
from gatemini.config.store import write_private
from gatemini.config.unavailable import SecretUnavailable
from gatemini.errors import ConfigError

KEYCHAIN_NAMES = "keyring.json"
"""File beside the configuration with the names of what was put into the keychain."""


def keyring_settings(source: Path | None) -> KeyringConfig:
    """`secrets.keyring` of a configuration that may still be wrong elsewhere: it lacks the value to be set."""
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
    """The entries put there by us: `settings` says under which service, `index` where their names are kept."""

    settings: KeyringConfig
    index: Path

    def put(self, path: str, value: str) -> str:
        """Keep a value; returns the service. Raises `ConfigError` when there is no keychain."""
        service, name = keychain_place(self.settings, path)
        if not service or not name or any(c.isspace() for c in path):
            raise ConfigError(
                f"{path!r} is no keychain name", hint="Use NAME or SERVICE/NAME, without blanks."
            )
        try:
            in_keychain(lambda library: library.set_password(service, name, value))
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
        """False when the keychain does not hold it."""
        service, name = keychain_place(self.settings, path)
        try:
            there = in_keychain(lambda library: library.get_password(service, name)) is not None
            if there:
                in_keychain(lambda library: library.delete_password(service, name))
        except SecretUnavailable as error:
            raise ConfigError(error.message, hint=error.remedy) from None
        self._write(set(self.names()) - {path})
        return there

    def _write(self, names: set[str]) -> None:
        self.index.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self.index, json.dumps(sorted(names)) + "\n")
