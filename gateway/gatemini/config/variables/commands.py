"""Commands that print secrets: run without a shell, within a time and a size, killed with all they started.

They block the calling thread, which must not be one with an event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio

from gatemini.config.variables.errors import SecretUnavailable
from gatemini.processes.children import Children
from gatemini.processes.command import Finished, OutputTooLarge, run_to_end

MAX_OUTPUT_BYTES = 4 << 20
"""A list of all secrets of an account is larger than one secret."""
SHOWN_STDERR = 200


@dataclass(slots=True)
class Commands:
    """The commands of one loaded configuration that are running. Thread-safe."""

    _running: dict[int, Callable[[], object]] = field(default_factory=dict)
    """Thread → cancels its command."""
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, words: Sequence[str], environ: Mapping[str, str], seconds: float, key: str) -> bytes:
        """The stdout of a command; `key` is the setting that bounds its time. Raises SecretUnavailable."""
        program = words[0]
        try:
            finished = anyio.run(self._run, words, environ, seconds)
        except TimeoutError:
            raise SecretUnavailable(
                f"{program} gave no answer within {seconds:g} s", f"Raise {key}"
            ) from None
        except OutputTooLarge:
            raise SecretUnavailable(f"{program} printed more than {MAX_OUTPUT_BYTES >> 20} MiB") from None
        except FileNotFoundError:
            raise SecretUnavailable(
                f"{program} was not found", "Install it, or write its full path"
            ) from None
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise SecretUnavailable(f"{program} could not be started: {reason}") from None
        except ValueError:
            raise SecretUnavailable(f"{program!r} or an argument holds a NUL or a lone surrogate") from None
        if finished is None:
            raise SecretUnavailable("the gateway is stopping")
        if finished.code != 0:
            shown = f": {finished.stderr_lines[-1][:SHOWN_STDERR]}" if finished.stderr_lines else ""
            raise SecretUnavailable(
                f"{program} ended with exit code {finished.code}{shown}", "Run it by hand to see why"
            )
        return finished.stdout

    def end(self) -> None:
        """Kill running commands and refuse new ones: the configuration they belong to is no longer in force."""
        with self._lock:
            self._ended = True
            for cancel in self._running.values():
                cancel()

    async def _run(self, words: Sequence[str], environ: Mapping[str, str], seconds: float) -> Finished | None:
        """None when `end` was called."""
        children, finished = Children(), None
        with anyio.CancelScope() as scope:
            with self._lock:
                if self._ended:
                    return None
                loop = asyncio.get_running_loop()
                self._running[threading.get_ident()] = partial(loop.call_soon_threadsafe, scope.cancel)
            try:
                with anyio.fail_after(seconds):
                    finished = await run_to_end(
                        words[0], words, environment=environ, cwd=None, stdin=None,
                        max_bytes=MAX_OUTPUT_BYTES, children=children, grace=0,
                    )  # fmt: skip
            finally:
                with self._lock:
                    del self._running[threading.get_ident()]
                with anyio.CancelScope(shield=True):
                    await children.close()
        return finished
