"""The HTTP+SSE transport of 2024: a GET that stays open and brings all messages, and a second URL that takes POSTs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

from gatemini.backends.calls.large_messages import read_messages
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.transports.event_stream import Event, EventReader
from gatemini.backends.transports.http_errors import (
    content_error,
    session_ended,
    shown_url,
    transport_error,
)
from gatemini.backends.transports.http_link import HttpLink, Permitted, open_client, origin
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import encode
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendError, BackendProtocol
from gatemini.model import Json

_MAY_BE_EVENTS = ("text/event-stream", "text/plain", "")
"""Content types that the stream may have; a web page or JSON is another service."""


class SseLink(HttpLink):
    """The connection to one server; its first event names the URL for POSTs."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._endpoint: str | None = None
        self._accepted = False
        self._endpoint_known = anyio.Event()

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        del ident
        await self._endpoint_known.wait()
        if self._left or self.failure is not None or self._endpoint is None:
            raise self._gone(sent=False)
        try:
            headers = {"content-type": "application/json"}
            async with self._open("POST", self._endpoint, headers, encode(message)) as response:
                body = await self._start_of(response)
                if not response.is_success:
                    lost = (
                        session_ended(self._name, response, body, quote=self._quotes)
                        if self._accepted
                        else None
                    )
                    if lost is not None:  # the URL for POSTs belongs to the session
                        self.end(lost)
                        raise lost
                    raise self._status_error(response, body)
                self._accepted = True
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise transport_error(self._name, self._endpoint, error, quote=self._quotes) from error

    async def leave(self) -> None:
        self._endpoint_known.set()  # senders that wait for it fail
        await super().leave()

    async def follow(self) -> None:
        """Read the stream to its end, which is the end of the connection."""
        error: BackendError = BackendCrashed(
            f"{self._name}: the event stream ended",
            sent=True,
            hint="the next call connects again; look whether this one took effect before you repeat it",
        )
        reader = EventReader(self._max)
        try:
            async with self._open("GET", self._url, {"accept": "text/event-stream"}) as response:
                kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
                if not response.is_success:
                    raise self._status_error(response, await self._start_of(response))
                if kind not in _MAY_BE_EVENTS:
                    raise content_error(
                        self._name,
                        response,
                        await self._start_of(response),
                        ran=False,
                        quote=self._quotes,
                    )
                await self._take_events(response, reader, self._event)
        except (httpx2.HTTPError, httpx2.InvalidURL) as broken:
            error = transport_error(self._name, self._url, broken, quote=self._quotes)
        except BackendError as refused:
            error = refused
        self._endpoint_known.set()
        self.end(error)

    async def _event(self, event: Event) -> bool:
        """Take one event; whether a caller waited for it."""
        if self._endpoint is None and event.data is not None and _names_endpoint(event.name, event.data):
            base = httpx2.URL(self._url)
            target = base.join(event.data.decode("utf-8", "replace").strip(' \t\r\n"'))
            if origin(base) != origin(target):
                raise BackendProtocol(
                    f"{self._name} names an endpoint elsewhere{f': {shown_url(target)}' if self._quotes else ''}",
                    hint="if that is the right server, write `url` with its host and port",
                )
            self._endpoint = str(target)
            self._endpoint_known.set()
            return True
        pieces = [self._too_large(None)] if event.data is None else await read_messages(event.data)
        answers = [self._answers(piece) for piece in pieces]
        for piece in pieces:
            self._receiver.receive(piece)
        return any(answers)


def _names_endpoint(name: str, data: bytes) -> bool:
    """Whether an event names the URL for POSTs; some servers leave out the event's name."""
    return name == "endpoint" or (name == "message" and data.lstrip()[:1] not in (b"{", b"["))


@asynccontextmanager
async def open_sse(
    config: BackendConfig,
    receiver: Receiver,
    permitted: Permitted | None = None,
    login: TokenSource | None = None,
) -> AsyncIterator[Link]:
    """Talk to an HTTP+SSE server of the 2024 revision for the length of the context."""
    async with open_client(config, permitted) as client, anyio.create_task_group() as tasks:
        link = SseLink(config, receiver, client, tasks, quotes=permitted is None, login=login)
        tasks.start_soon(link.follow)
        try:
            yield link
        finally:
            await link.leave()
            tasks.cancel_scope.cancel()
