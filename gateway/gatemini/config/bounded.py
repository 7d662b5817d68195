"""Questions to those that keep secrets: bounded in time and size as a whole, with errors that hold no value.

Above: providers (keychain, Vault), bitwarden. Below: httpx2.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import orjson

from gatemini.config.unavailable import SecretSilent, SecretUnavailable

MAX_REPLY_BYTES = 4 << 20
"""What such a server may say; a list of all secrets is larger than one of them."""


T = TypeVar("T")


def within(seconds: float, work: Callable[[], T], name: str) -> T:
    """What `work` gives or raises; TimeoutError after so many seconds, whatever it waits for.

    What is late goes on on its own thread, which keeps nobody from ending, and its answer is dropped."""
    answers: list[T] = []
    faults: list[BaseException] = []

    def done() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            faults.append(error)

    thread = threading.Thread(target=done, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if faults:
        raise faults[0]
    if not answers:
        raise TimeoutError
    return answers[0]


@dataclass(frozen=True, slots=True)
class Server:
    """Whom to ask. `name` is its product; `timeout` in seconds, set by the key `timeout_key`; `check` what to look at."""

    name: str
    timeout: float
    timeout_key: str
    check: str
    trusted: ssl.SSLContext | bool = True

    def at(self, url: httpx2.URL) -> str:
        """How errors speak of it: without a user and password."""
        return f"{self.name} at {url.scheme}://{url.netloc.decode()}"

    def ask(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """HTTP status and body. Raises SecretSilent when it is not reached or not done in time."""
        try:
            return within(self.timeout, lambda: self._ask(method, url, headers, form), "gatemini-secret")
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            late = isinstance(error, TimeoutError | httpx2.TimeoutException)
            said = f"gave no answer within {self.timeout:g} s" if late else "cannot be reached"
            raise SecretSilent(
                f"{self.at(url)} {said} ({type(error).__name__})",
                f"{self.check}; or raise {self.timeout_key}" if late else self.check,
            ) from None

    def _ask(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], form: Mapping[str, str] | None
    ) -> tuple[int, bytes]:
        body = b""
        with (
            httpx2.Client(verify=self.trusted, timeout=self.timeout, follow_redirects=False) as client,
            client.stream(method, url, headers=headers, data=form) as reply,
        ):
            for piece in reply.iter_bytes():
                body += piece
                if len(body) > MAX_REPLY_BYTES:
                    raise SecretUnavailable(
                        f"{self.name} said more than {MAX_REPLY_BYTES >> 20} MiB", f"Is this {self.name}?"
                    )
        return reply.status_code, body

    def json(self, body: bytes) -> Any:
        """What a body holds."""
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise SecretUnavailable(
                f"{self.name} gave something that is no JSON", f"Is this {self.name}?"
            ) from None
