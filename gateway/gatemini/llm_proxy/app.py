"""The proxy as an ASGI application: which requests are worked on, and which pass untouched."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx2

from gatemini.context import Format
from gatemini.llm_proxy.client_request import ClientGone, ClientRequest, Receive, Reply, Scope, Send
from gatemini.llm_proxy.exchange import Exchange, relay
from gatemini.llm_proxy.upstream import Upstream
from gatemini.llm_proxy.wire.events import compact
from gatemini.llm_proxy.wire.formats import WIRES

MOST_BYTES = 32 << 20
"""Of a request that is worked on; a larger one passes untouched."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
BAD_GATEWAY, BAD_REQUEST, FORBIDDEN = 502, 400, 403
_JSON = [(b"content-type", b"application/json")]
_PATHS: tuple[tuple[re.Pattern[str], Format], ...] = (
    (re.compile(r"/v1/chat/completions"), "openai"),
    (re.compile(r"/v1/messages(/count_tokens)?"), "anthropic"),
    (re.compile(r"/v1(beta)?/models/[^/]+:(generateContent|streamGenerateContent)"), "gemini"),
)

logger = logging.getLogger(__name__)


class ProxyApp:
    """Answers requests between `start` and `stop`, which it calls when the server has begun and when it ends."""

    def __init__(
        self,
        upstream: Upstream,
        exchange: Exchange,
        start: Callable[[], None],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._upstream = upstream
        self._exchange = exchange
        self._start = start
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._until_gone(ClientRequest(scope, receive), Reply(send))

    async def _until_gone(self, request: ClientRequest, reply: Reply) -> None:
        """Answer a request; a client that hangs up ends the request to the provider."""
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                await request.gone()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await self._answer(request, reply)
            tasks.cancel_scope.cancel()

    async def _answer(self, request: ClientRequest, reply: Reply) -> None:
        format = format_of(request)
        try:
            if not _is_for_us(request):
                error = {"error": {"message": f"Host: allowed are {', '.join(LOOPBACK_HOSTS)}"}}
                await reply.whole(FORBIDDEN, _JSON, compact(error))
            elif not _is_below(request.path):
                error = {"error": {"message": "the path must begin with / and hold no . or .. as a part"}}
                await reply.whole(BAD_REQUEST, _JSON, compact(error))
            elif format is None or request.field(b"content-encoding") is not None:
                await relay(self._upstream, request, reply)
            else:
                await self._work_on(request, format, reply)
        except ClientGone:
            return
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            # After the beginning, returning without the end makes the server break the connection, as the provider broke its own.
            logger.info("the request to the provider broke: %s", type(error).__name__)
            if not reply.begun:
                message = f"gatemini llm-proxy: no answer from the provider: {type(error).__name__}"
                body = WIRES[format or "openai"].error(message, BAD_GATEWAY)
                await reply.whole(BAD_GATEWAY, _JSON, compact(body))

    async def _work_on(self, request: ClientRequest, format: Format, reply: Reply) -> None:
        size, parts = 0, []
        body = request.body()
        async for part in body:
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                await relay(self._upstream, request, reply, _joined(parts, body))
                return
        await self._exchange.run(request, format, b"".join(parts), reply)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await self._stop()
            else:
                self._start()
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


async def _joined(parts: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What was read of a body, then the rest of it."""
    yield b"".join(parts)
    async for part in rest:
        yield part


def format_of(request: Any) -> Format | None:
    """The format of a request that is worked on; None for those that pass untouched."""
    if request.method != "POST":
        return None
    return next((format for pattern, format in _PATHS if pattern.fullmatch(request.path)), None)


def _is_below(path: str) -> bool:
    """Whether a path, decoded, stays below that of the provider's address."""
    return path.startswith("/") and {".", ".."}.isdisjoint(re.split(r"[/\\]", path))


def _is_for_us(request: ClientRequest) -> bool:
    """Whether the request names this machine: a page in a browser that rebinds its name does not."""
    host = request.field(b"host") or "localhost"
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name.lower() in LOOPBACK_HOSTS
