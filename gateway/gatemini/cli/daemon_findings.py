"""What `gatemini doctor` finds about daemons: rights of their folder, files they left, processes without a gateway."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from gatemini.cli.finding import Finding
from gatemini.folders import config_folder, state_folder
from gatemini.processes.process_mark import MARK_FLOOR
from gatemini.proxy.places import Place, PlaceRefused, socket_folder, take_lock

CONNECT_SECONDS = 2.0
END_SECONDS = 5.0
"""How long an orphan may take to end after SIGTERM, and after SIGKILL."""
UNLIMITED = (1 << 63) - 1
"""The resource limit of a process without a mark, as psutil reads it (or -1)."""
_REAPERS = ("systemd", "init", "launchd")
"""Processes that take over the children of processes that have ended."""


def daemon_findings() -> list[Finding]:
    """The findings about all daemons of this user."""
    if sys.platform == "win32":
        return []
    findings = private_folders()
    try:
        folder, reason = socket_folder(dict(os.environ))
    except PlaceRefused as refused:
        return [*findings, Finding("daemon folder", "fail", str(refused), "repair it, or remove it")]
    if reason:
        findings.append(
            Finding("daemon folder", "warn", f"{folder}: {reason}", "set XDG_RUNTIME_DIR to a short path")
        )
    else:
        findings.append(Finding("daemon folder", "ok", f"{folder}, for you alone"))
    findings += stale_files(folder)
    return [*findings, *orphans()]


def private_folders() -> list[Finding]:
    """Folders that hold secrets and results, where others may enter them."""
    findings = []
    for folder in (config_folder() / "secrets", state_folder()):
        with suppress(OSError):
            mode = folder.stat().st_mode & 0o777
            if mode & 0o077:
                seen = f"{folder} may be entered by others (mode {mode:o})"
                findings.append(
                    Finding(
                        "private folder",
                        "warn",
                        seen,
                        f"chmod 700 {shlex.quote(str(folder))}",
                        partial(folder.chmod, 0o700),
                    )
                )
    return findings


def stale_files(folder: str) -> list[Finding]:
    """Sockets that nobody answers, and process ids of daemons that have ended."""
    findings = []
    for key in sorted({path.stem for kind in ("sock", "pid") for path in Path(folder).glob(f"*.{kind}")}):
        place = Place(folder, key)
        lock = take_lock(place.lock)
        if lock is None:  # its daemon lives
            if not _answers(place.sock):
                seen = f"the daemon {_pid(place)} does not answer at {place.sock}"
                findings.append(Finding("daemon", "warn", seen, "`gatemini stop --now`, or end the process"))
            continue
        os.close(lock)
        left = [path for path in (place.sock, place.pid) if os.path.lexists(path)]
        seen = f"{' and '.join(left)} of a daemon that was killed"
        findings.append(
            Finding(
                "stale files",
                "warn",
                seen,
                f"the next client replaces them; rm {' '.join(map(shlex.quote, left))}",
                partial(_remove_stale, place),
            )
        )
    return findings


def _remove_stale(place: Place) -> None:
    """Remove what a killed daemon left, unless another one has taken its place meanwhile. Raises OSError."""
    lock = take_lock(place.lock)
    if lock is None:
        return
    try:
        for path in (place.sock, place.pid):
            Path(path).unlink(missing_ok=True)
    finally:
        os.close(lock)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(CONNECT_SECONDS)
        try:
            sock.connect(path)
        except OSError:
            return False
        return True


def _pid(place: Place) -> str:
    try:
        return Path(place.pid).read_text("ascii").split()[0]
    except (OSError, IndexError):
        return "(process id unknown)"


def orphans() -> list[Finding]:
    """Daemons that no client can find, and children of gateways that have ended."""
    findings = []
    marked: dict[int, list[psutil.Process]] = defaultdict(list)
    for process, mark in _own_processes():
        with suppress(psutil.Error):
            words = process.cmdline()
            if mark:
                marked[mark].append(process)
            elif "gatemini" in words and "serve" in words and not _is_found(process):
                seen = f"the daemon {process.pid} has lost its files: no client can find it"
                findings.append(
                    Finding("orphan", "warn", seen, f"kill {process.pid}", partial(end_processes, [process]))
                )
    for processes in marked.values():
        if not _has_parent(processes):
            named = ", ".join(f"{process.pid} ({process.name()})" for process in processes)
            pids = " ".join(str(process.pid) for process in processes)
            seen = f"started by a gateway that has ended: {named}"
            findings.append(
                Finding("orphan", "warn", seen, f"kill {pids}", partial(end_processes, processes))
            )
    return findings


def end_processes(processes: Sequence[psutil.Process]) -> None:
    """End processes, by force those that do not end by themselves. Raises OSError."""
    for process in processes:
        with suppress(
            psutil.NoSuchProcess
        ):  # psutil compares the start time: no process with a reused id is ended
            process.terminate()
    _, alive = psutil.wait_procs(processes, END_SECONDS)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _, alive = psutil.wait_procs(alive, END_SECONDS)
    if alive:
        raise OSError(f"{', '.join(str(process.pid) for process in alive)} did not end")


def _is_found(daemon: psutil.Process) -> bool:
    """Whether a file with its process id is in the folder that its variables say."""
    try:
        folder, _ = socket_folder({"XDG_RUNTIME_DIR": daemon.environ().get("XDG_RUNTIME_DIR", "")})
    except PlaceRefused:
        return False
    return str(daemon.pid) in {_pid(Place(folder, path.stem)) for path in Path(folder).glob("*.pid")}


def _own_processes() -> Iterator[tuple[psutil.Process, int]]:
    """The processes of this user, with the mark that children of gateways have (else 0)."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.uids().real != os.getuid() or process.pid == os.getpid():
                continue
            mark = 0
            if sys.platform.startswith("linux"):
                mark = process.rlimit(psutil.RLIMIT_RTTIME)[0]
            yield process, mark if MARK_FLOOR <= mark < UNLIMITED else 0


def _has_parent(family: Sequence[psutil.Process]) -> bool:
    """Whether one of these processes is the child of a living process that is none of them."""
    pids = {process.pid for process in family}
    for process in family:
        with suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and parent.pid not in {1, *pids} and parent.name() not in _REAPERS:
                return True
    return all(not process.is_running() for process in family)
