"""What a command asks of the daemon of its configuration, where one runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli.shell import note
from gatemini.config.documents.find import config_directory
from gatemini.errors import DaemonRefused

if TYPE_CHECKING:
    from gatemini.proxy.places import Place

SEARCH_SECONDS = 90.0
"""The longest a search waits for backends and for a model that the daemon still loads."""
NO_CONFIGURATION = "no configuration file ({}): using the embedded demo backends"


def daemon_call(
    config: Path | None,
    name: str,
    arguments: dict[str, Any],
    *,
    whole: bool,
    on_call: Callable[[dict[str, Any]], None],
) -> dict[str, Any] | None:
    """The result of a meta-tool by the running daemon, None where none runs. Raises DaemonRefused."""
    from gatemini.daemon.client import Unanswered, call_tool

    place, file = _place(config)
    if place is None or not os.path.exists(place.sock):
        return None
    try:
        answer = call_tool(place, name, arguments, environ=os.environ, whole=whole, on_call=on_call)
    except Unanswered as silent:
        raise DaemonRefused(str(silent), hint="`gatemini logs` shows what it did last; --no-daemon") from None
    if answer is not None and file is None:
        note(NO_CONFIGURATION.format(config_directory() / "config.yaml"))
    return answer


def daemon_search(config: Path | None, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The results of a search by the running daemon; None where none runs, or one of a version without search."""
    from gatemini.daemon.client import Unanswered, ask

    place, file = _place(config)
    if place is None or not os.path.exists(place.sock):
        return None
    try:
        answer = ask(place, "search", environ=os.environ, seconds=SEARCH_SECONDS, **arguments)
    except Unanswered as silent:
        raise DaemonRefused(str(silent), hint="`gatemini logs` shows what it did last; --no-daemon") from None
    if answer is None or not answer.pop("ok", False):
        return None
    if file is None:
        note(NO_CONFIGURATION.format(config_directory() / "config.yaml"))
    return answer


def _place(config: Path | None) -> tuple[Place | None, str | None]:
    """The place of the daemon of this configuration, and the file of that; (None, …) where there can be none."""
    from gatemini.proxy.places import PlaceRefused, config_file, place_of

    if sys.platform == "win32":
        return None, None
    environ = dict(os.environ)
    file = config_file(str(config) if config else None, environ)
    try:
        return place_of(file, environ), file
    except PlaceRefused:
        return None, file
