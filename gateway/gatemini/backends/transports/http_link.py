"""What both HTTP transports share: the client, redirects, bounded bodies, and cancelling requests at the end.

No request outlives its link, whichever task made it: a connection that opens after the client is closed would leak.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.request import getproxies, proxy_bypass

import anyio
import anyio.abc
import httpx2

from gatemini.backends.calls.failures import copied
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.transports.event_stream import Event, EventReader
from gatemini.backends.transports.http_errors import status_error
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import Broken
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import (
    BackendCrashed,
    BackendError,
    BackendStopped,
    BackendUnreachable,
    LoginRequired,
)
from gatemini.outgoing.tls_context import tls_context
from gatemini.processes.throttle import READ_SECONDS, Throttle

DRAIN_SECONDS = 2.0
DRAIN_BYTES = 64 << 10
"""How long and how much of a response is still read after the answer, so that its connection can be used again."""

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 3.0
"""Idle connections are closed before servers close them (5 s is usual), so that no call uses a closed one."""

LEAVE_SECONDS = DRAIN_SECONDS + 1.0
"""How long open requests may take to close their responses at the end."""

MAX_REDIRECTS = 5
ERROR_BODY_BYTES = 64 << 10

logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs whole URLs, secrets in the query included


Permitted = Callable[[str], Awaitable[list[str]]]
"""Resolves a host to addresses that it may be reached at; raises `BackendError` if there must be no connection."""


class HttpLink(Link):
    """A connection by HTTP; subclasses send and read messages."""

    all_or_nothing = False

    def __init__(
        self,
        config: BackendConfig,
        receiver: Receiver,
        client: httpx2.AsyncClient,
        tasks: anyio.abc.TaskGroup,
        *,
        quotes: bool,
        login: TokenSource | None = None,
    ) -> None:
        super().__init__(config.name, receiver)
        self._url = config.url or ""
        self._max = config.max_message_mb << 20
        self._client = client
        self._tasks = tasks
        self._quotes = quotes
        """Whether errors show what the server sent; not for registered backends."""
        self._login = login
        self._left = False
        self._share = Throttle()
        self._requests: set[anyio.CancelScope] = set()
        self._request_over = anyio.Event()

    def end(self, error: BackendError) -> None:
        """End the connection with this error."""
        if self.failure is None:
            self.failure = error
            self._receiver.fail(error)
            self.closed.set()

    async def leave(self) -> None:
        """Cancel the requests of every task and wait until they have ended; then the client can be closed."""
        self._left = True
        for scope in self._requests:
            scope.cancel()
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            while self._requests:
                self._request_over = anyio.Event()
                await self._request_over.wait()

    async def _end_for_login(self, needed: LoginRequired) -> None:
        """End the connection once the refused request has raised its own error, which says that it was not run."""
        self.end(needed)

    def _gone(self, *, sent: bool) -> BackendError:
        """The error of a request that is made after the end, or (`sent`) is open at the end."""
        if (cause := self.failure) is not None:
            return copied(cause, sent=sent)
        if sent:
            return BackendStopped(f"{self._name} was stopped while the call was open", sent=True)
        return BackendCrashed(f"{self._name} is gone", sent=False)

    @asynccontextmanager
    async def _open(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and stream its response; cancelled when the link is left."""
        if self._left:
            raise self._gone(sent=False)
        with anyio.CancelScope() as scope:
            self._requests.add(scope)
            try:
                async with self._authorized(method, url, headers, content) as response:
                    yield response
            except LoginRequired as needed:
                if not needed.details.get("step_up"):
                    self._tasks.start_soon(self._end_for_login, needed)
                raise
            finally:
                self._requests.discard(scope)
                self._request_over.set()
        if scope.cancelled_caught:
            raise self._gone(sent=True)

    @asynccontextmanager
    async def _authorized(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request with the token of the backend's login, and again with another one if that is refused."""
        if self._login is None:
            async with self._response(method, url, headers, content) as response:
                yield response
            return
        attempt = 1
        while True:
            token = await self._login.token(self._tasks)
            own = headers if token is None else {**headers, "authorization": f"Bearer {token}"}
            async with self._response(method, url, own, content) as response:
                if response.status_code not in (401, 403) or not await self._login.refused(
                    response, token, attempt, self._tasks
                ):
                    yield response
                    return
            attempt += 1

    @asynccontextmanager
    async def _response(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; redirects are followed only if they keep method and origin."""
        request = self._client.build_request(method, url, headers=dict(headers), content=content)
        for _ in range(MAX_REDIRECTS):
            response = await self._client.send(request, stream=True)
            following = response.next_request
            if following is None or not _same_endpoint(request, following):
                break
            await response.aclose()
            request = following
        else:
            raise httpx2.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects", request=request)
        try:
            yield response
        finally:
            with anyio.move_on_after(DRAIN_SECONDS, shield=True):
                await response.aclose()

    async def _rest(self, seconds: float) -> None:
        """Account for time spent on unsolicited output, and pause a server that is over its share."""
        rest = self._share.charge(max(0.0, seconds))
        if rest > 0:
            await anyio.sleep(rest)

    async def _take_events(
        self,
        response: httpx2.Response,
        reader: EventReader,
        take: Callable[[Event], Awaitable[bool]],
        enough: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Pass a stream's events to `take`, which returns whether a caller waited for it, until `enough()` is true.

        Returns whether the stream ended by itself. Comments and notifications are read within a share of time.
        """
        chunks = aiter(response.aiter_bytes())
        async for chunk in chunks:
            begun, answered = time.perf_counter(), False
            for event in reader.feed(chunk):
                answered = await take(event) or answered
            if enough():
                drained = 0
                with anyio.move_on_after(DRAIN_SECONDS):
                    while drained < DRAIN_BYTES and (part := await anext(chunks, None)) is not None:
                        drained += len(part)
                return False
            if not answered:
                await self._rest(time.perf_counter() - begun + READ_SECONDS)
        return True

    async def _start_of(self, response: httpx2.Response) -> bytes:
        """The start of an error's body, which is all that is shown."""
        found = b""
        with suppress(httpx2.HTTPError), anyio.move_on_after(DRAIN_SECONDS):  # some never end it
            async for part in response.aiter_bytes():
                found += part
                if len(found) > ERROR_BODY_BYTES:
                    break
        return found

    def _status_error(self, response: httpx2.Response, body: bytes) -> BackendError:
        """Return the error for a status other than 2xx whose body is no JSON-RPC error."""
        logs_in = self._login is not None
        return status_error(self._name, response, body, quote=self._quotes, logs_in=logs_in)

    def _too_large(self, ident: int | None) -> Broken:
        reason = f"the answer is larger than {self._max:,} bytes (max_message_mb)"
        return Broken(reason, ident=ident, too_large=True)


@asynccontextmanager
async def open_client(
    config: BackendConfig, permitted: Permitted | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client with the backend's headers; `permitted` limits the addresses that it connects to."""
    tls = await anyio.to_thread.run_sync(tls_context)
    limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_SECONDS)
    try:
        checked = permitted is not None and not goes_by_proxy(config.url or "")
        client = httpx2.AsyncClient(
            headers={name: value.strip(" \t") for name, value in config.headers.items()},
            # The wait for an answer is bounded by the call's own timeout; only connecting has a limit here.
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=limits,
            verify=tls,
            transport=CheckedTransport(httpx2.AsyncHTTPTransport(verify=tls, limits=limits), permitted)
            if permitted is not None and checked
            else None,
        )
    except (ValueError, TypeError, UnicodeError, httpx2.InvalidURL) as error:
        raise BackendUnreachable(f"{config.name}: {error}", hint="correct `url` or `headers`") from error
    async with client:
        yield client


def _same_endpoint(request: httpx2.Request, following: httpx2.Request) -> bool:
    """Whether a redirect keeps the method and stays within the origin, or upgrades it to https."""
    if following.method != request.method or following.url.userinfo != request.url.userinfo:
        return False
    before, after = origin(request.url), origin(following.url)
    upgrade = before[0] == "http" and after[0] == "https" and before[1] == after[1]
    return before == after or (upgrade and before[2] is None and after[2] is None)


def origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def goes_by_proxy(url: str) -> bool:
    """Whether the environment sends requests for this URL to a proxy."""
    parts = httpx2.URL(url)
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.host)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves and checks the host of each request, and connects to exactly that address.

    A second DNS lookup might give another address (rebinding). Used for backends that agents register; configured
    backends connect anywhere. If the environment names an HTTP proxy for the URL, the proxy resolves the name.
    The `Host` header and the name in the certificate stay those of the URL.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, permitted: Permitted) -> None:
        self._inner = inner
        self._permitted = permitted

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        failure: httpx2.TransportError = httpx2.ConnectError(f"no address is known of {host}")
        for address in await self._permitted(host):
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(there)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as unreachable:  # nothing was sent
                failure = unreachable
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()
