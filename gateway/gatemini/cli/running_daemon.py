"""What commands ask of the daemon of their configuration: where it is reached, its state, calls and searches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.errors import BackendNotFound, DaemonRefused, GateminiError, ToolNotFound

if TYPE_CHECKING:
    from gatemini.proxy.places import Place

SEARCH_SECONDS = 90.0
"""The longest a search waits for backends and for a model that the daemon still loads."""
SHOWS_LOG = "`gatemini logs` shows what it did last"


def require_sockets(what: str = "daemons") -> None:
    """Raise DaemonRefused on a system without Unix sockets."""
    if sys.platform == "win32":
        raise DaemonRefused(f"{what} need Unix sockets, which this system has not")


def own_place(config: Path | None) -> Place:
    """The place of the daemon of this configuration. Raises DaemonRefused."""
    from gatemini.proxy.places import PlaceRefused

    require_sockets()
    try:
        return _place_and_file(config)[0]
    except PlaceRefused as refused:
        raise DaemonRefused(str(refused)) from None


def possible_place(config: Path | None) -> Place | None:
    """The place of the daemon of this configuration; None where no daemon can run."""
    try:
        return own_place(config)
    except DaemonRefused:
        return None


def own_places(config: Path | None) -> list[Place]:
    """The place of the daemon of this configuration, then those of its HTTP servers. Raises DaemonRefused."""
    from gatemini.daemon.client import all_places

    own = own_place(config)
    return [own, *(place for place in all_places(os.environ) if place.key.startswith(f"{own.key}-"))]


def ask_daemon(
    place: Place, command: str, *, hint: str | None = SHOWS_LOG, **arguments: Any
) -> dict[str, Any] | None:
    """The answer of the daemon of a place, None where none runs. Raises DaemonRefused."""
    from gatemini.daemon.client import Unanswered, ask

    try:
        return ask(place, command, **arguments)
    except Unanswered as silent:
        raise DaemonRefused(str(silent), hint=hint) from None


def daemon_call(
    config: Path | None,
    name: str,
    arguments: dict[str, Any],
    *,
    whole: bool,
    on_call: Callable[[dict[str, Any]], None],
) -> dict[str, Any] | None:
    """The result of a meta-tool by the running daemon, None where none runs. Raises DaemonRefused."""
    from gatemini.daemon.client import call_tool

    def send(place: Place) -> dict[str, Any] | None:
        return call_tool(place, name, arguments, environ=os.environ, whole=whole, on_call=on_call)

    return _by_daemon(config, send)


def daemon_answer(config: Path | None, command: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The running daemon's answer to a command about tools; None where none runs, or one that does not know it.

    Raises GateminiError.
    """
    from gatemini.daemon.client import ask

    def send(place: Place) -> dict[str, Any] | None:
        answer = ask(place, command, environ=os.environ, seconds=SEARCH_SECONDS, **arguments)
        return answer if answer is not None and answer.pop("ok", False) else None

    answer = _by_daemon(config, send)
    if answer is not None and "refused" in answer:
        kind, message, hint = answer["refused"]
        known = {each.__name__: each for each in (BackendNotFound, ToolNotFound)}
        raise known.get(kind, GateminiError)(message, hint=hint)
    return answer


def _by_daemon(config: Path | None, send: Callable[[Place], dict[str, Any] | None]) -> dict[str, Any] | None:
    """The answer of the running daemon to what is sent to its place; None where no daemon can run or none does."""
    from gatemini.daemon.client import Unanswered
    from gatemini.proxy.places import PlaceRefused

    if sys.platform == "win32":
        return None
    try:
        place, file = _place_and_file(config)
    except PlaceRefused:
        return None
    if not os.path.exists(place.sock):
        return None
    try:
        answer = send(place)
    except Unanswered as silent:
        raise DaemonRefused(str(silent), hint=f"{SHOWS_LOG}; --no-daemon") from None
    if answer is not None and file is None:
        shell.note_no_configuration()
    return answer


def _place_and_file(config: Path | None) -> tuple[Place, str | None]:
    """The place of the daemon of this configuration, and its file. Raises PlaceRefused."""
    from gatemini.proxy.places import config_file, place_of

    environ = dict(os.environ)
    file = config_file(str(config) if config else None, environ)
    return place_of(file, environ), file
