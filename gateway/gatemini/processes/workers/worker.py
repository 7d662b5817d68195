"""Answer the requests of a `WorkerPool`: the main module of its processes, standard library only.

    python -P -s -m gatemini.processes.workers.worker MODULE

Standard input is a socket. A request is a length in eight bytes and so many bytes; an answer has a status byte after
the length. `MODULE.answer(request)` gives the answer's bytes; the text of an exception is an answer as well.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import struct
import sys
import threading
import traceback
from queue import SimpleQueue

REQUEST = struct.Struct("<Q")
ANSWER = struct.Struct("<QB")
"""Bytes that follow, and `DONE` or `RAISED`."""
DONE, RAISED = 0, 1


def main() -> None:
    connection = socket.socket(fileno=0)
    requests: SimpleQueue[bytearray] = SimpleQueue()
    # A thread reads, so that the process ends with its parent even while it computes.
    threading.Thread(target=_read, args=(connection, requests), daemon=True).start()
    answer = importlib.import_module(sys.argv[1]).answer
    while True:
        status, made = DONE, b""
        request = requests.get()
        # Values read from JSON hold no cycles, and looking through millions of them takes a fifth of the time.
        gc.disable()
        try:
            made = answer(request)
        except Exception as error:  # noqa: BLE001 - the gateway raises it
            traceback.print_exc()
            status, made = RAISED, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        finally:
            gc.enable()
        try:
            connection.sendall(ANSWER.pack(len(made), status))
            connection.sendall(made)
        except OSError:
            return  # the parent is gone


def _read(connection: socket.socket, requests: SimpleQueue[bytearray]) -> None:
    while True:
        [size] = REQUEST.unpack(_exactly(connection, REQUEST.size))
        requests.put(_exactly(connection, size))


def _exactly(connection: socket.socket, count: int) -> bytearray:
    """So many bytes; at the end of the connection the process ends."""
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        try:
            got = connection.recv_into(view[at:])
        except OSError:
            got = 0
        if not got:
            os._exit(0)
        at += got
    return data


if __name__ == "__main__":
    main()
