"""A sandbox process: `python -P -s -m gatemini_sandbox.processes.process PARENT`, messages over the socket that is its stdin.

It holds no secrets: its environment is empty, it inherits no descriptor but its socket, and before the first code
comes it has walled itself in (confine.py). Guests are stepped on the threads of worker.py; turn_to_read.py says which
thread reads.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gatemini_sandbox.errors import ReadingTooLong, SandboxError
from gatemini_sandbox.guests.worker import THREAD_STACK, Worker, not_code
from gatemini_sandbox.limits import MIB
from gatemini_sandbox.messages import (
    Answer,
    Check,
    Checked,
    CodeCheck,
    Ready,
    Refused,
    Settings,
    pack,
)
from gatemini_sandbox.processes.confine import confine
from gatemini_sandbox.processes.turn_to_read import Inbox, TurnToRead
from gatemini_sandbox.typescript.nesting import check_brackets
from gatemini_sandbox.typescript.parse_deadline import patience
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError
from gatemini_sandbox.typescript.undeclared import outside_calls

DATA_MARGIN = 1024 * MIB
"""Private memory above that of all guests: the interpreter, stacks, messages in both directions."""
NICE = 2
"""Guests that compute give way to the gateway a little; at 5 they had a third of what other programs of a busy machine got."""
CHECK_SECONDS = 15.0
"""Most that one program of the configuration may take to parse, compiling the second parser for the first of them
included."""
CHECK_ALL_SECONDS = 30.0
"""Most that all of them may take together."""
WATCH_SECONDS = 0.25

_writing = threading.Lock()


def send(answer: Answer) -> None:
    """Write an answer; from any thread."""
    data = memoryview(pack(answer))
    with _writing:
        while data:
            data = data[os.write(0, data) :]


@contextmanager
def ends_with(parent: int) -> Iterator[None]:
    """End the process with its parent meanwhile, whatever it computes: nobody reads the socket, whose end would say so."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_SECONDS):
            if os.getppid() != parent:
                os._exit(0)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()  # no thread may be left outside of the walls


def give_back() -> None:
    """Return to the system what compiling has left free: 30 MB that nothing would use again."""
    if sys.platform.startswith("linux"):
        with suppress(AttributeError):  # another libc
            ctypes.CDLL(None).malloc_trim(0)


def serve(settings: Settings, inbox: Inbox, parent: int) -> None:
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        with ends_with(parent):  # compiling takes a second, on a busy machine ten
            worker = Worker(settings, send)
    except SandboxError as exc:
        return send(Refused(0, exc.code, str(exc)))

    give_back()

    turn = TurnToRead(worker, inbox)

    def on_tick() -> None:
        turn.tick()
        # A process whose parent has died gets another one; needed where threads compute and none reads the socket.
        if os.getppid() != parent:
            os._exit(0)

    worker.engine.ticker.on_tick = on_tick
    walls = confine(settings.limits.total_memory_mb * MIB + DATA_MARGIN, worker.start_threads)
    send(Ready(walls, worker.engine.cache_problem))
    turn.read()


def check(request: Check) -> None:
    """Parse the programs of a configuration, without walls: their author is the owner of the gateway, and the second
    parser compiles itself when one of them needs it."""

    def answer() -> None:
        send(Checked(check_all([source.decode("utf-8", "replace") for source in request.sources])))

    threading.stack_size(
        THREAD_STACK
    )  # the main thread's stack has the system's size, which parsers may exceed
    parsing = threading.Thread(target=answer)
    parsing.start()
    parsing.join()


def check_all(sources: list[str]) -> list[CodeCheck]:
    with patience(CHECK_ALL_SECONDS):
        return [_checked(source) for source in sources]


def _checked(source: str) -> CodeCheck:
    found = CodeCheck()
    try:
        with patience(CHECK_SECONDS):
            check_brackets(source)
            try:
                prepare(source)
            except SandboxSyntaxError as exc:
                found.error = not_code(exc)
            found.calls = [(call.name, call.member, call.line) for call in outside_calls(source)]
    except ReadingTooLong as exc:
        if found.error is None:
            found.error = not_code(SandboxSyntaxError(str(exc), line=0, column=0, source_line=""))
    return found


def main() -> None:
    parent = int(sys.argv[1])  # it may be gone already, with its messages in the socket
    if os.getppid() != parent:
        return
    inbox = Inbox()
    first = inbox.next()
    if isinstance(first, Check):
        with ends_with(parent):
            check(first)
    elif isinstance(first, Settings):
        serve(first, inbox, parent)


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - what a process prints is not read: the gateway sees that it is gone
        sys.exit(1)
