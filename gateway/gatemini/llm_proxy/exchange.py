"""One request that the context tools make smaller: the steps, the provider's answer, and repeats for tools of ours."""

from __future__ import annotations

import copy
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any

import httpx2

from gatemini.context import (
    Format,
    Request,
    Sessions,
    Steps,
    own_tools,
    parse_request,
    session_key,
)
from gatemini.context.request.json_places import spliced
from gatemini.context.stores import own_secret
from gatemini.errors import GateminiError
from gatemini.llm_proxy.client_request import SESSION_FIELD, ClientRequest, Fields, Reply, end_to_end
from gatemini.llm_proxy.daemon_link import DaemonLink, SharedStore
from gatemini.llm_proxy.own_tools import OwnTools
from gatemini.llm_proxy.predicting import Predicting
from gatemini.llm_proxy.totals import Totals
from gatemini.llm_proxy.upstream import Upstream
from gatemini.llm_proxy.wire.answer import Answer, AnswerStream, Value, Wire, json_object, member, usage_sum
from gatemini.llm_proxy.wire.events import ArrayOfEvents, EventSplitter, compact
from gatemini.llm_proxy.wire.formats import WIRES

logger = logging.getLogger(__name__)

COUNT_TOKENS = "/count_tokens"
STREAMED = ":streamGenerateContent"
READABLE = frozenset(("", "identity", "gzip", "deflate"))
"""Encodings of an answer that can be looked into; a provider may use others although none is accepted."""
ALT = (b"alt=", b"$alt=", b"%24alt=")
"""How the query of a Gemini client names the form of its stream."""
EVENTS = frozenset(key + b"sse" for key in ALT)
"""What asks for server-sent events; without it a client of Gemini gets one JSON array."""


@dataclass(slots=True)
class Prepared:
    """A request after the steps. `base` still has all tools: what a repeated request is made of."""

    base: Request
    data: bytes
    own: OwnTools
    report: dict[str, Any]


class Exchange:
    """Takes requests through the steps and answers calls of our own tools."""

    def __init__(
        self, steps: Steps, predicting: Predicting, upstream: Upstream, totals: Totals, link: DaemonLink
    ) -> None:
        self._steps = steps
        self._predicting = predicting
        self.upstream = upstream
        self._totals = totals
        self._link = link
        self._secret = _secret()
        self._sessions = Sessions(store=self._store)

    async def run(self, request: ClientRequest, format: Format, body: bytes, reply: Reply) -> None:
        """Answer one request. What cannot be read goes on as it is."""
        prepared = await self._prepare(request, format, body)
        if prepared is None:
            self._totals.passed += 1
            await relay(self.upstream, request, reply, body)
            return
        counted = not request.path.endswith(COUNT_TOKENS)
        run = _Run(self, request, WIRES[format], prepared, reply)
        try:
            if prepared.own.names and counted:
                await run.watched()
            else:
                await relay(self.upstream, request, reply, prepared.data)
        finally:
            if counted:
                self._totals.record(format, len(body), run.sent or [len(prepared.data)], prepared.report)
                self._totals.record_answer(prepared.own.fallbacks, prepared.report, run.used)

    def _store(self, session_key: str) -> SharedStore:
        return SharedStore(self._secret, session_key, self._link.send_soon)

    async def _prepare(self, request: ClientRequest, format: Format, body: bytes) -> Prepared | None:
        """Take a request through the steps; None for one that passes as it is."""
        try:
            given = self._steps.read(body, format)
            if _several_answers(given):
                return None
            return await self._taken_through(request, given)
        except GateminiError as error:
            logger.info("a request passes as it is: %s", error.code)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end a client's request
            place = extract_tb(error.__traceback__)[-1]
            logger.error("%s in %s, line %s", type(error).__name__, Path(place.filename).name, place.lineno)
        return None

    async def _taken_through(self, request: ClientRequest, given: Request) -> Prepared:
        session = self._sessions.get(session_key(given, request.field(SESSION_FIELD)))
        if request.path.endswith(COUNT_TOKENS):  # counting must not change what the next request sends
            session = copy.copy(session)
            session.sent, session.added = list(session.sent), list(session.added)
        question = self._steps.question(given)
        prediction = None if question is None else await self._predicting.predict(question, request, given)
        base, (data, report) = self._steps.take(given, session, prediction)
        search = report.get("filter", {}).get("tool_search")
        fetch = report.get("fold", {}).get("fetch_rows")
        own = OwnTools(given, session, self._steps.filter, search, fetch, self._link)
        return Prepared(base, data, own, report)

    def repeated(self, prepared: Prepared, messages: bytes) -> bytes:
        """The request with these messages behind its own, and with the tools that were asked for."""
        base, own = prepared.base, prepared.own
        longer = parse_request(
            spliced(base.data, [base.array.with_item(messages)]), base.format, checked=True
        )
        made = self._steps.from_filter(
            longer, own.session, None, own=own_tools(prepared.report), called=own.request.called
        )
        return bytes(made.request)


class _Run:
    """The answer to one request in which the model may call tools of ours."""

    def __init__(
        self, exchange: Exchange, request: ClientRequest, wire: Wire, prepared: Prepared, reply: Reply
    ) -> None:
        self._exchange = exchange
        self._request = request
        self._wire = wire
        self._prepared = prepared
        self._reply = reply
        self._messages: list[bytes] = []
        self._stream: AnswerStream | None = None
        self._array = ArrayOfEvents() if _wants_array(request) else None
        self._usage: Value = {}
        """Token counts of unstreamed answers after which the request was repeated."""
        self.sent: list[int] = []
        self.used: list[str] = []
        """Tools that the model called, ours left out."""

    async def watched(self) -> None:
        """Send the request, and repeat it while the model calls tools of ours."""
        upstream, request = self._exchange.upstream, self._request
        fields = request.fields_for_reading
        query = _for_events(request.query) if self._array is not None else None
        data: bytes | None = self._prepared.data
        while data is not None:
            self.sent.append(len(data))
            async with upstream.send(request, data, fields=fields, query=query) as response:
                data = await self._answered(response)

    async def _answered(self, response: httpx2.Response) -> bytes | None:
        """Pass an answer on; the request to repeat where there is one."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        readable = _encodings(response) <= READABLE
        if response.status_code == 200 and kind == "text/event-stream" and readable:
            return await self._streamed(response)
        if self._stream is not None:  # the client's stream has begun: its error comes as an event
            body = await response.aread()
            await self._end(self._wire.stream_error(body, response.status_code))
            return None
        if response.status_code != 200 or kind != "application/json" or not readable:
            await pass_on(response, self._reply)
            return None
        return await self._whole(response)

    async def _whole(self, response: httpx2.Response) -> bytes | None:
        raw = await response.aread()
        body = json_object(raw)
        answer = self._wire.answer(body)
        again, note = await self._decide(answer)
        if again is not None:
            self._usage = usage_sum(self._usage, member(body, self._wire.usage_key))
            return again
        if note is not None:
            body = self._wire.without(body, self._prepared.own.names, note)
        if self._usage:
            body = self._wire.with_usage_of(body, self._usage)
        if note is not None or self._usage:
            raw = compact(body)
        fields = end_to_end(response.headers.raw, changed_body=True)
        await self._reply.whole(response.status_code, fields, raw)
        return None

    async def _streamed(self, response: httpx2.Response) -> bytes | None:
        if self._stream is None:
            self._stream = self._wire.stream()
            await self._begin(response)
        stream, splitter = self._stream, EventSplitter()
        stream.begin()
        async for data in response.aiter_bytes():
            await self._part(b"".join(map(stream.feed, splitter.feed(data))))
        await self._part(b"".join(map(stream.feed, splitter.end())))
        again, note = await self._decide(stream.answer())
        if again is not None:
            return again
        names = self._prepared.own.names
        await self._end(stream.release() if note is None else stream.release_without(names, note))
        return None

    async def _begin(self, response: httpx2.Response) -> None:
        fields = end_to_end(response.headers.raw, changed_body=True)
        if self._array is not None:
            kept = [field for field in fields if field[0].lower() != b"content-type"]
            fields = [*kept, (b"content-type", b"application/json; charset=UTF-8")]
        await self._reply.begin(response.status_code, fields)

    async def _part(self, events: bytes) -> None:
        await self._reply.part(events if self._array is None else self._array.feed(events))

    async def _end(self, events: bytes) -> None:
        """The last events of the client's stream."""
        await self._part(events)
        if self._array is not None:
            await self._reply.part(self._array.end())
        await self._reply.end()

    async def _decide(self, answer: Answer) -> tuple[bytes | None, str | None]:
        """The request to repeat, or the note that takes the place of calls of ours; neither for other answers."""
        own = self._prepared.own
        if not any(call.name in own.names for call in answer.calls):
            self.used = [call.name for call in answer.calls]
            return None, None
        if not answer.complete:
            return None, ""
        if not own.may_repeat(answer.calls):
            self.used = [call.name for call in answer.calls if call.name not in own.names]
            return None, own.give_up(answer.calls)
        results = self._wire.results(answer.calls, await own.answer(answer.calls))
        self._messages += map(compact, (answer.message, *results))
        return self._exchange.repeated(self._prepared, b",".join(self._messages)), None


async def relay(
    upstream: Upstream, request: ClientRequest, reply: Reply, body: bytes | AsyncIterator[bytes] | None = None
) -> None:
    """Send a request on and its answer back, byte for byte; `body` takes the place of the request's own."""
    async with upstream.send(request, body) as response:
        await pass_on(response, reply)


async def pass_on(response: httpx2.Response, reply: Reply) -> None:
    """The provider's answer as it is, each part when it comes."""
    fields: Fields = end_to_end(response.headers.raw)
    await reply.begin(response.status_code, fields)
    parts: AsyncIterator[bytes] = response.aiter_raw()
    async for part in parts:
        await reply.part(part)
    await reply.end()


def _secret() -> bytes:
    """This user's, so that a proxy that is started again gives a session's results the same handles."""
    try:
        return own_secret()
    except OSError:
        return secrets.token_bytes(32)


def _encodings(response: httpx2.Response) -> set[str]:
    return {each.strip().lower() for each in response.headers.get("content-encoding", "").split(",")}


def _wants_array(request: ClientRequest) -> bool:
    """Whether a client of Gemini wants its stream as one JSON array."""
    return request.path.endswith(STREAMED) and EVENTS.isdisjoint(request.query.split(b"&"))


def _for_events(query: bytes) -> bytes:
    kept = [part for part in query.split(b"&") if part and not part.startswith(ALT)]
    return b"&".join([*kept, b"alt=sse"])


def _several_answers(request: Request) -> bool:
    """Whether a request wants several answers at once, of which only the first would be looked into."""
    config = request.root.get("generationConfig", "generation_config")
    count = config.get("candidateCount", "candidate_count") if config is not None else request.root.get("n")
    return count is not None and count.written not in (b"1", b"null")
