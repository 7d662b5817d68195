"""Commands that tell secrets: each runs to its end, or is killed with all it started when its time is over.

They block: whoever asks does so on a thread of its own. Beside each runs a watchdog, which ends it should the gateway
be killed first. Above: secrets, providers. Below: child processes, `backends/watching.py`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from gatemini.config.unavailable import SecretSilent, SecretUnavailable
from gatemini.processes.liveness import start_time
from gatemini.processes.watchdog_start import start_watchdog

MAX_SAID_BYTES = 4 << 20
"""What a command may print; a list of all secrets is larger than one of them."""
READ_BYTES = 65536
SHOWN_STDERR = 200
KILL_SECONDS = 2.0
"""How long a killed command may take to disappear."""
LAST_WORDS_SECONDS = 0.5
"""How long its pipes are still read after a command ended: what it left behind may hold them open."""


@dataclass(slots=True)
class Commands:
    """The commands that run now, for one reading of the configuration. Thread-safe."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, words: Sequence[str], environ: Mapping[str, str], seconds: float, key: str) -> bytes:
        """stdout of an allowed command; `key` names the setting that bounds its time."""
        process = self._started(words, environ)
        said, complained = _Reading(process, process.stdout), _Reading(process, process.stderr)
        watching, ended = None, True
        try:
            watching = _watched(process)
            said.start()
            complained.start()
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            ended = False
        except RuntimeError as error:
            raise SecretUnavailable(
                f"what {words[0]} says could not be read: {error}",
                "Look at the limit of processes and threads (`ulimit -u`)",
            ) from None
        finally:
            _kill(process)
            said.close_unread()
            complained.close_unread()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
            with self._lock:
                self._running.discard(process)
            _unwatched(process, watching)
        output, errors = said.result(), complained.result()
        if said.flood or complained.flood:
            raise SecretUnavailable(f"{words[0]} said more than {MAX_SAID_BYTES >> 20} MiB")
        if not ended:
            raise SecretSilent(f"{words[0]} gave no answer within {seconds:g} s", f"Raise {key}")
        if process.returncode != 0:
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
            shown = f": {last[0][:SHOWN_STDERR]}" if last else ""
            raise SecretUnavailable(
                f"{words[0]} ended with exit code {process.returncode}{shown}", "Run it by hand to see why"
            )
        return output

    def end(self) -> None:
        """Nobody waits for an answer any more: kill what runs, start nothing."""
        with self._lock:
            self._over = True
            for process in self._running:
                _kill(process)

    def _started(self, words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            with self._lock:
                if self._over:
                    raise SecretUnavailable("the gateway ends")
                process = subprocess.Popen(  # noqa: S603 - no shell; the owner's configuration names the command
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=dict(environ),
                    process_group=0 if os.name == "posix" else None,
                )
                self._running.add(process)
                return process
        except FileNotFoundError:
            raise SecretUnavailable(
                f"{words[0]} was not found", "Install it, or give its full path"
            ) from None
        except OSError as error:
            raise SecretUnavailable(
                f"{words[0]} could not be started: {os.strerror(error.errno or 0)}"
            ) from None
        except ValueError:
            raise SecretUnavailable(
                f"{words[0]!r} or its arguments hold what no command line can",
                "Remove NUL and half characters",
            ) from None


class _Reading:
    """What a pipe brings, read on a thread of its own; `flood` when that is more than it may."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes] | None) -> None:
        self.data = b""
        self._process, self._pipe = process, pipe
        self._thread = threading.Thread(target=self._read, name="gatemini-secret", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError where there is no thread."""
        self._thread.start()

    def close_unread(self) -> None:
        """Close the pipe if nobody ever read it: whoever reads it does so at its end."""
        if self._pipe is not None and self._thread.ident is None:
            self._pipe.close()

    @property
    def flood(self) -> bool:
        return len(self.data) > MAX_SAID_BYTES

    def _read(self) -> None:
        pipe = self._pipe
        if pipe is None:
            return
        with contextlib.suppress(OSError, ValueError), pipe:
            while not self.flood and (part := os.read(pipe.fileno(), READ_BYTES)):
                self.data += part
        if self.flood:
            _kill(self._process)

    def result(self) -> bytes:
        self._thread.join(LAST_WORDS_SECONDS)
        return self.data


def _watched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes] | None:
    if os.name != "posix":
        return None
    try:
        watching = start_watchdog()
    except OSError:
        return None  # it ends within its time, unless the gateway is killed before
    _tell(watching, f"+{process.pid} {start_time(process.pid):.3f} 0\n")
    return watching


def _unwatched(process: subprocess.Popen[bytes], watching: subprocess.Popen[bytes] | None) -> None:
    if watching is None:
        return
    _tell(watching, f"-{process.pid}\n")
    if watching.stdin is not None:
        watching.stdin.close()
    try:
        watching.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        watching.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            watching.wait(KILL_SECONDS)


def _tell(watching: subprocess.Popen[bytes], line: str) -> None:
    with contextlib.suppress(OSError):
        if watching.stdin is not None:
            watching.stdin.write(line.encode())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and its group, members of which may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
