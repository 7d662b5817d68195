"""Approvals for commands of the terminal: what they list and decide, and the socket of a gateway without a daemon."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import psutil

from gatemini import __version__
from gatemini.config.variables.redaction import Redactor
from gatemini.daemon.hello import Hello
from gatemini.daemon.listener import listening_at
from gatemini.daemon.terminal.commands import MOST_COMMANDS, serve_commands
from gatemini.policy.approvals.asking import Approvals
from gatemini.policy.approvals.grants import Approval, NotDecided
from gatemini.policy.approvals.shown import description
from gatemini.proxy.places import SUN_PATH_BYTES, Place, PlaceRefused, config_file, place_of

logger = logging.getLogger(__name__)

LIST, DECIDE = "approvals", "approve"
"""The commands."""
DIRECT_SUFFIX = ".direct"
"""Of the socket of a gateway that serves one client without a daemon: KEY-PID.direct, beside the daemon's KEY.sock."""


async def answer(approvals: Approvals, redactor: Redactor, hello: Hello) -> dict[str, Any]:
    """Return the answer to one of these commands. With `whole` the list has all of long arguments, too."""
    if hello.control == LIST:
        if hello.arguments.get("watch"):
            approvals.watched()
        opened, whole = approvals.opened(), bool(hello.arguments.get("whole"))
        found = await anyio.to_thread.run_sync(
            lambda: [_listed(each, redactor, whole=whole) for each in opened]
        )
        return {"ok": True, "approvals": found, "watched": approvals.is_watched}
    if hello.control != DECIDE:
        error = f"this gateway ({__version__}, without a daemon) does not know the command {hello.control}"
        return {"ok": False, "error": error}
    ident, digest = str(hello.arguments.get("id", "")), str(hello.arguments.get("arguments_sha256", ""))
    granted = hello.arguments.get("granted")
    if not isinstance(granted, bool):
        return {"ok": False, "error": "granted is neither true nor false"}
    try:
        approval = await approvals.decided(ident, digest, "console", granted=granted)
    except NotDecided as refused:
        return {"ok": False, "error": str(refused)}
    return {"ok": True, "approval": _listed(approval, redactor)}


def _listed(approval: Approval, redactor: Redactor, *, whole: bool = False) -> dict[str, Any]:
    request = approval.request
    text, complete = description(approval, whole=whole)
    found: dict[str, Any] = redactor.value(
        {
            "id": approval.id,
            "state": str(approval.state),
            "tool": request.qualified,
            "arguments_sha256": approval.subject.digest,
            "rule": request.rule,
            "reason": request.reason,
            "client": request.client,
            "session": approval.subject.session,
            "chain": request.chain,
            "read_before": list(request.reads),
            "waiting": approval.waiting,
            "via": list(approval.ask.via),
            "remember": approval.ask.remember,
            "text": text,
            "complete": complete,
        }
    )
    return found


async def serve_direct(approvals: Approvals, redactor: Redactor, config: Path | None) -> None:
    """Answer these commands on a socket of this process, until cancelled."""
    try:
        path = _direct_path(config)
        listening = listening_at(path, MOST_COMMANDS)
    except (PlaceRefused, OSError) as error:
        logger.warning("approvals cannot be given from a console: %s", error)
        return
    approvals.console = True
    try:
        await serve_commands(listening, partial(answer, approvals, redactor))
    finally:
        listening.close()
        with suppress(OSError):
            os.unlink(path)


def _direct_path(config: Path | None) -> str:
    environ = dict(os.environ)
    place = place_of(config_file(str(config) if config else None, environ), environ)
    for other in direct_places(place):  # left by processes that were killed
        if not psutil.pid_exists(int(Path(other.sock).stem.rpartition("-")[2])):
            Path(other.sock).unlink(missing_ok=True)
    path = f"{place.folder}/{place.key}-{os.getpid()}{DIRECT_SUFFIX}"
    if len(os.fsencode(path)) > SUN_PATH_BYTES:
        raise PlaceRefused(f"the path of the socket is longer than {SUN_PATH_BYTES} bytes: {path}")
    return path


def direct_places(place: Place) -> list[Place]:
    """Return the places of the gateways without a daemon that serve the same configuration."""
    found = []
    for path in sorted(Path(place.folder).glob(f"{place.key}-*{DIRECT_SUFFIX}")):
        if path.stem.rpartition("-")[2].isdecimal():
            found.append(Place(place.folder, path.stem))
            found[-1].sock = str(path)
    return found
