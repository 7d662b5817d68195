"""`gatemini secret set | list | remove`: values for `${input:NAME}`, one private file each.

Values are read from a hidden prompt or stdin, never from the command line, where other users could see them.
Above: main. Below: config.store.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gatemini.cli import shell
from gatemini.config.load import STORE, config_directory
from gatemini.config.store import SecretStore
from gatemini.errors import InvalidRequest

app = shell.application("Stored values.")
secret_app = shell.application("set, list, remove")
app.add_typer(secret_app, name="secret")
Name = Annotated[str, typer.Argument(help="As in ${input:NAME}.")]


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


def _store() -> SecretStore:
    return SecretStore(config_directory() / STORE)


@secret_app.command(name="set")
def put(name: Name, as_json: shell.JSON = False) -> None:
    """Keep a value; it is asked for, or read from stdin when that is no terminal."""
    store = _store()
    store.path(name)
    value = (
        typer.prompt(name, hide_input=True, err=True)
        if sys.stdin.isatty()
        else sys.stdin.read().rstrip("\r\n")
    )
    if not value:
        raise InvalidRequest("the value is empty", hint=f"printf %s VALUE | gatemini secret set {name}")
    path = store.put(name, value)
    if as_json:
        shell.emit({"ok": True, "name": name, "path": str(path)})
    else:
        shell.say(f"kept; write ${{input:{name}}} in the configuration")


@secret_app.command(name="list")
def names(as_json: shell.JSON = False) -> None:
    """The names of stored values, never the values."""
    found = _store().names()
    if as_json:
        shell.emit({"names": found})
    else:
        shell.say("\n".join(found) if found else "nothing is stored")


@secret_app.command()
def remove(name: Name, as_json: shell.JSON = False) -> None:
    """Forget a value."""
    if not _store().remove(name):
        raise InvalidRequest(f"there is no stored value {name}", hint="gatemini secret list")
    if as_json:
        shell.emit({"ok": True, "name": name})
    else:
        shell.say(f"{name} is forgotten")
