"""`gatemini secret set | list | remove`: values for `${input:NAME}`, one private file each, or in the OS keychain.

Values are read from a hidden prompt or stdin, never from the command line, where other users could see them.
"""

from __future__ import annotations

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from gatemini.cli import shell
from gatemini.config.documents.find import config_directory, find_config
from gatemini.config.variables.store import STORE, SecretStore
from gatemini.errors import InvalidRequest

if TYPE_CHECKING:
    from gatemini.config.variables.keychain import Keychain


def _store() -> SecretStore:
    return SecretStore(config_directory() / STORE)


def _keychain(config: Path | None) -> Keychain:
    """The keychain under the service that the configuration names."""
    from gatemini.config.variables.keychain import KEYCHAIN_NAMES, Keychain, keyring_settings

    directory = config_directory()
    settings = keyring_settings(find_config(config, os.environ, directory))
    return Keychain(settings, directory / KEYCHAIN_NAMES)


def put(*, name: str, keyring: bool, config: Path | None, as_json: bool) -> None:
    """Store a value, typed at a prompt, or read from stdin when that is not a terminal."""
    store = _store()
    keychain = _keychain(config) if keyring else None
    if keychain is None:
        store.path(name)
    value = getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
    if not value:
        raise InvalidRequest("the value is empty", hint=f"printf %s VALUE | gatemini secret set {name}")
    if keychain is not None:
        service = keychain.put(name, value)
        where, written = {"service": service}, f"secretref:keyring:{name}"
    else:
        where, written = {"path": str(store.put(name, value))}, f"${{input:{name}}}"
    text = f"kept; write {written} in the configuration"
    shell.result({"ok": True, "name": name, **where}, text, as_json=as_json)


def names(*, config: Path | None, as_json: bool) -> None:
    """The names of stored values, never the values."""
    found, kept = _store().names(), _keychain(config).names()
    lines = [*found, *(f"{name} (keychain)" for name in kept)]
    text = "\n".join(lines) or "nothing is stored"
    shell.result({"names": found, "keyring": kept}, text, as_json=as_json)


def remove(*, name: str, keyring: bool, config: Path | None, as_json: bool) -> None:
    """Remove a value."""
    if not (_keychain(config).remove(name) if keyring else _store().remove(name)):
        raise InvalidRequest(f"there is no stored value {name}", hint="gatemini secret list")
    shell.result({"ok": True, "name": name}, f"{name} was removed", as_json=as_json)


_NAME = shell.argument("name", help="as in ${input:NAME}")
_KEYRING = shell.argument(
    "--keyring", action="store_true", help="in the OS keychain, for secretref:keyring:NAME"
)
COMMANDS = (
    shell.Command("set", put, [_NAME, _KEYRING], config="place"),
    shell.Command("list", names, config="place"),
    shell.Command("remove", remove, [_NAME, _KEYRING], config="place"),
)
