"""Commands that print secrets: run without a shell, within a time and a size, killed with all they started.

`Commands.run` blocks its thread. A watchdog process kills the command if the gateway itself is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from gatemini.config.unavailable import SecretTimeout, SecretUnavailable
from gatemini.processes.children import start_watchdog
from gatemini.processes.process_facts import start_time

MAX_OUTPUT_BYTES = 4 << 20
"""A list of all secrets of an account is larger than one secret."""
READ_BYTES = 65536
SHOWN_STDERR = 200
KILL_SECONDS = 2.0
"""How long a killed process may take to disappear."""
LAST_READ_SECONDS = 0.5
"""How long pipes are read after the command ended: a process it left behind may hold them open."""


@dataclass(slots=True)
class Commands:
    """The commands of one loaded configuration that are running. Thread-safe."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, words: Sequence[str], environ: Mapping[str, str], seconds: float, key: str) -> bytes:
        """The stdout of a command; `key` is the setting that bounds its time. Raises SecretUnavailable."""
        process = self._start(words, environ)
        output, errors = _Output(process, process.stdout), _Output(process, process.stderr)
        timed_out = False
        try:
            with _watched(process):
                process.wait(seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
            with self._lock:
                self._running.discard(process)
        printed, complaint = output.read(), errors.read()
        if output.too_large or errors.too_large:
            raise SecretUnavailable(f"{words[0]} printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        if timed_out:
            raise SecretTimeout(f"{words[0]} gave no answer within {seconds:g} s", f"Raise {key}")
        if process.returncode != 0:
            last = complaint.decode("utf-8", "replace").strip().splitlines()[-1:]
            shown = f": {last[0][:SHOWN_STDERR]}" if last else ""
            raise SecretUnavailable(
                f"{words[0]} ended with exit code {process.returncode}{shown}", "Run it by hand to see why"
            )
        return printed

    def end(self) -> None:
        """Kill running commands and refuse new ones: the configuration they belong to is no longer in force."""
        with self._lock:
            self._ended = True
            for process in self._running:
                _kill(process)

    def _start(self, words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            with self._lock:
                if self._ended:
                    raise SecretUnavailable("the gateway is stopping")
                process = subprocess.Popen(  # noqa: S603 - no shell; the configuration names the command
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
                f"{words[0]} was not found", "Install it, or write its full path"
            ) from None
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise SecretUnavailable(f"{words[0]} could not be started: {reason}") from None
        except ValueError:
            raise SecretUnavailable(f"{words[0]!r} or an argument holds a NUL or a lone surrogate") from None


class _Output:
    """What a pipe gives, read on a thread; kills the process once that is too large."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes] | None) -> None:
        self.data = b""
        self._process, self._pipe = process, pipe
        self._thread = threading.Thread(target=self._collect, name="gatemini-secret", daemon=True)
        self._thread.start()

    @property
    def too_large(self) -> bool:
        return len(self.data) > MAX_OUTPUT_BYTES

    def _collect(self) -> None:
        if self._pipe is None:
            return
        with contextlib.suppress(OSError, ValueError), self._pipe as pipe:
            while not self.too_large and (part := os.read(pipe.fileno(), READ_BYTES)):
                self.data += part
        if self.too_large:
            _kill(self._process)

    def read(self) -> bytes:
        self._thread.join(LAST_READ_SECONDS)
        return self.data


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A watchdog beside the process where there are process groups and room for one more process."""
    try:
        watchdog = start_watchdog() if os.name == "posix" else None
    except OSError:
        watchdog = None
    if watchdog is None or watchdog.stdin is None:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            watchdog.stdin.write(f"+{process.pid} {start_time(process.pid):.3f} 0\n".encode())
        yield
    finally:
        watchdog.kill()  # rather than end of file, at which it would kill what it watches
        watchdog.stdin.close()
        watchdog.wait(KILL_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The process and its group, whose members may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
