"""`gatemini secret set | list | remove`: values for `${input:NAME}`, one private file each, or in the OS keychain.

Values are read from a hidden prompt or stdin, never from the command line, where other users could see them.
Above: main. Below: config.store, config.keychain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gatemini.cli import shell
from gatemini.config.keychain import KEYCHAIN_NAMES, Keychain, keyring_settings
from gatemini.config.load import STORE, config_directory, find_config
from gatemini.config.store import SecretStore
from gatemini.errors import InvalidRequest

app = shell.application("Stored values.")
secret_app = shell.application("set, list, remove")
app.add_typer(secret_app, name="secret")
Name = Annotated[str, typer.Argument(help="As in ${input:NAME}.")]


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


IN_KEYCHAIN = Annotated[
    bool, typer.Option("--keyring", help="In the OS keychain, for secretref:keyring:NAME.")
]


def _store() -> SecretStore:
    return SecretStore(config_directory() / STORE)


def _keychain(config: Path | None) -> Keychain:
    """The keychain under the service that the configuration names, if there is one."""
    directory = config_directory()
    settings = keyring_settings(find_config(config, os.environ, directory))
    return Keychain(settings, directory / KEYCHAIN_NAMES)


@secret_app.command(name="set")
def put(
    name: Name, keyring: IN_KEYCHAIN = False, config: shell.CONFIG = None, as_json: shell.JSON = False
) -> None:
    """Keep a value; it is asked for, or read from stdin when that is no terminal."""
    store = _store()
    keychain = _keychain(config) if keyring else None
    if keychain is None:
        store.path(name)
    value = (
        typer.prompt(name, hide_input=True, err=True)
        if sys.stdin.isatty()
        else sys.stdin.read().rstrip("\r\n")
    )
    if not value:
        raise InvalidRequest("the value is empty", hint=f"printf %s VALUE | gatemini secret set {name}")
    if keychain is not None:
        service = keychain.put(name, value)
        where, written = {"service": service}, f"secretref:keyring:{name}"
    else:
        where, written = {"path": str(store.put(name, value))}, f"${{input:{name}}}"
    if as_json:
        shell.emit({"ok": True, "name": name, **where})
    else:
        shell.say(f"kept; write {written} in the configuration")


@secret_app.command(name="list")
def names(config: shell.CONFIG = None, as_json: shell.JSON = False) -> None:
    """The names of stored values, never the values."""
    found, kept = _store().names(), _keychain(config).names()
    if as_json:
        shell.emit({"names": found, "keyring": kept})
    else:
        lines = [*found, *(f"{name} (keychain)" for name in kept)]
        shell.say("\n".join(lines) if lines else "nothing is stored")


@secret_app.command()
def remove(
    name: Name, keyring: IN_KEYCHAIN = False, config: shell.CONFIG = None, as_json: shell.JSON = False
) -> None:
    """Forget a value."""
    if not (_keychain(config).remove(name) if keyring else _store().remove(name)):
        raise InvalidRequest(f"there is no stored value {name}", hint="gatemini secret list")
    if as_json:
        shell.emit({"ok": True, "name": name})
    else:
        shell.say(f"{name} is forgotten")
