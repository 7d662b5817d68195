"""Questions to those that keep secrets end in time as a whole."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from gatemini.config.bounded import Server, within
from gatemini.config.unavailable import SecretSilent


@contextmanager
def dripping() -> Iterator[tuple[str, threading.Event]]:
    """A server that goes on sending a header for as long as it is let; the event ends it."""
    enough = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not enough.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", enough
        enough.set()
        thread.join()


def test_a_server_that_drips_its_header_is_given_up_like_a_silent_one() -> None:
    with dripping() as (address, enough):
        server = Server("Vault", 0.2, "secrets.vault.timeout", "Check it")
        with pytest.raises(SecretSilent, match=r"gave no answer within 0\.2 s") as caught:
            server.ask("GET", httpx2.URL(address), {})
        assert not enough.is_set()
    assert "raise secrets.vault.timeout" in caught.value.remedy


def test_what_the_work_gives_or_raises_is_handed_on() -> None:
    assert within(5, lambda: "value", "a name") == "value"
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0, "a name")
