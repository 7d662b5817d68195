"""The seven meta-tools: arguments → MCP result.

Every failure becomes a tool error (`isError: true`) whose text the model sees; only cancellation is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gatemini.backends.calls.callers import Caller
from gatemini.chain.answer import well_formed
from gatemini.chain.client import NO_CLIENT, ChainClient
from gatemini.chain.run import ChainRequest, run_chain
from gatemini.chain.services import ChainServices
from gatemini.config.model.schema import OutputConfig, SandboxConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.history import SearchHistory
from gatemini.errors import GateminiError, InvalidRequest, ToolNotFound
from gatemini.logs.context import SESSION, logged_as
from gatemini.model import Json
from gatemini.output.options import OutputOptions
from gatemini.policy.principal import Behalf, Principal
from gatemini.protocol.answers.discovery import search_text
from gatemini.protocol.answers.discovery_tools import DISCOVERY_TOOLS, Catalog
from gatemini.protocol.definitions import (
    CALL_TOOL_CHAIN,
    DEFAULT_TIMEOUT_MS,
    DEREGISTER_MANUAL,
    LIST_TOOLS_META,
    REGISTER_MANUAL,
    SEARCH_TOOLS,
)
from gatemini.protocol.registration.recorded import recorded
from gatemini.protocol.registration.registering import Registration
from gatemini.protocol.sessions.budgets import budget_for
from gatemini.protocol.sessions.client_session import Session
from gatemini.protocol.tool_arguments import is_given, read_arguments
from gatemini.text.escape import visible
from gatemini.text.shorten import shorten
from gatemini.tracker import Tracker
from gatemini.unlisted import FIRST_LISTING_SECONDS

logger = logging.getLogger(__name__)

META_TOOLS = (*DISCOVERY_TOOLS, CALL_TOOL_CHAIN, REGISTER_MANUAL, DEREGISTER_MANUAL)
UNKNOWN_TOOL = "unknown tools"
"""Refusals of unknown names are counted together: a client may send any number of them."""


@dataclass(slots=True)
class MetaTools:
    """The meta-tools of one gateway; they hold no state of their own."""

    chain: ChainServices
    catalog: Catalog
    registration: Registration
    tracker: Tracker
    config: SandboxConfig
    history: SearchHistory
    redactor: Redactor
    """Knows every resolved secret, and removes them from every answer."""

    async def call(
        self, name: str, arguments: Any, session: Session, client: ChainClient = NO_CLIENT
    ) -> Json:
        """Return the MCP result of one meta-tool as a dict; failures have `isError: true`."""
        try:
            with logged_as(SESSION, session.id):
                result, processed = await self._dispatch(name, arguments, session, client)
            if session.results.replicas is not None:
                await session.results.replicas.flush()
        except GateminiError as exc:
            result, processed = error_result(exc.text(), session), 0
        except Exception as exc:
            logger.exception("%s failed", name)
            result, processed = (
                error_result(f"InternalError: {type(exc).__name__} in {name}: {exc}", session),
                0,
            )
        result = self._without_secrets(result)
        result = _shown(result, session) if result["isError"] else result
        returned = sum(
            len((block.get("text") or block.get("data") or "").encode()) for block in result["content"]
        )
        if (door := self.chain.door) is not None and (why := door.limits.degraded()) is not None:
            result["_meta"] = {**result.get("_meta", {}), "gatemini/state": {"degraded": why}}
        counted = name if name in META_TOOLS else UNKNOWN_TOOL
        self.tracker.record_answer(counted, max(processed, returned), returned, session.id)
        return result

    def unreduced(self) -> MetaTools:
        """Return tools that show results of chains whole, for a client that leaves with its answer."""
        output = OutputConfig(auto_chunk_json=False, smart_truncation=False, table=False)
        return replace(self, config=self.config.model_copy(update={"output": output}))

    def count_answer(self, name: str, returned: int, session: Session) -> None:
        """Count bytes that the model reads from something other than a tool."""
        self.tracker.record_answer(name, returned, returned, session.id, called=False)

    def _without_secrets(self, result: Json) -> Json:
        content = [
            {key: value if key == "data" else self.redactor.value(value) for key, value in block.items()}
            for block in result["content"]
        ]
        meta = {"_meta": self.redactor.value(result["_meta"])} if "_meta" in result else {}
        return {**result, "content": content, **meta}

    async def _dispatch(
        self, name: str, arguments: Any, session: Session, client: ChainClient
    ) -> tuple[Json, int]:
        if name in DISCOVERY_TOOLS:
            room = budget_for(session.client).result.plain
            found = await self.discover(name, arguments, room, session.who)
            if name == SEARCH_TOOLS:
                self.history.searched(session.id, self.redactor.redact(search_text(arguments)))
            return _json_result(found), 0
        if name == CALL_TOOL_CHAIN:
            answer = await run_chain(self._chain_request(arguments, session, client), self.chain)
            for made in answer.result["_meta"]["gatemini/chain"]["calls"]:
                if made["outcome"] == "ok":
                    self.history.called(session.id, self.redactor.redact(made["tool"]))
            return answer.result, answer.bytes_in
        if name == REGISTER_MANUAL:
            with recorded(self.chain.door, name, arguments, session):
                read = await self._read_before(session)
                return _json_result(
                    await self.registration.register(
                        arguments, client.caller, client.behalf or Behalf(session.who), read
                    )
                ), 0
        if name == DEREGISTER_MANUAL:
            with recorded(self.chain.door, name, arguments, session):
                return _json_result(await self.registration.deregister(arguments, session.who)), 0
        raise InvalidRequest(
            f"there is no tool '{shorten(visible(name), 80)}' here",
            hint=f"the tools are {', '.join(META_TOOLS)}; backend tools are called inside call_tool_chain",
        )

    async def _read_before(self, session: Session) -> Sequence[str]:
        """Return what a person must know before the session registers a backend. Raises PolicyDenied."""
        if session.results.replicas is not None:
            await session.results.replicas.learn()
        door = self.chain.door
        return () if door is None else door.read_before_registration(session.who, session.id)

    async def discover(self, name: str, arguments: Any, room: int, who: Principal) -> Json:
        """Answer a discovery tool, with a note on backends whose tools are unknown. Raises GateminiError."""
        missing = await self.chain.unlisted(FIRST_LISTING_SECONDS)
        listing = self.chain.listing(who)
        try:
            found = await self.catalog.answer(name, arguments, room, missing.reasons, listing)
        except ToolNotFound as exc:
            given = str(read_arguments(name, arguments)[0]["tool_name"])
            if given in META_TOOLS:
                exc.hint = f"{given} is a tool of this gateway itself: call it as your tool list says; detail full has its guide"
            else:
                missing.explain(exc, given)
            raise
        # An answer about one tool is complete without the other backends.
        note = missing.note() if name in (SEARCH_TOOLS, LIST_TOOLS_META) else ""
        return {**found, "note": f"{found['note']}; {note}" if found.get("note") else note} if note else found

    def _chain_request(self, arguments: Any, session: Session, client: ChainClient) -> ChainRequest:
        given, notes = read_arguments(CALL_TOOL_CHAIN, arguments)
        budget = budget_for(session.client)
        # The schema's default means "not given": then the configuration decides.
        timeout = self.config.timeout * 1000 if given["timeout"] == DEFAULT_TIMEOUT_MS else given["timeout"]
        named = is_given(CALL_TOOL_CHAIN, arguments, "max_output_size")
        size = given["max_output_size"] if named else self.config.max_output_size
        stages = self.config.output
        output = OutputOptions(
            max_chars=size, intent=given["intent"] or None, named_size=named, **vars(stages)
        )
        return ChainRequest(
            given["code"],
            timeout / 1000,
            output,
            session.results,
            session.journals,
            budget.error,
            budget.result,
            replace(client, caller=_caller_of(client, session), behalf=client.behalf or Behalf(session.who)),
            notes,
        )


def _json_result(answer: object) -> Json:
    text = answer if isinstance(answer, str) else orjson.dumps(answer).decode()
    return {"content": [{"type": "text", "text": text}], "isError": False}


def _shown(failed: Json, session: Session) -> Json:
    """Escape hidden characters in the names and messages of a failed answer."""
    content = [
        {**block, "text": _cut(visible(block["text"], lines=True), session)} if "text" in block else block
        for block in failed["content"]
    ]
    return {**failed, "content": content}


def error_result(text: str, session: Session) -> Json:
    """Return a tool error, cause first, within what the client shows of one."""
    return {"content": [{"type": "text", "text": _cut(well_formed(text), session)}], "isError": True}


def _cut(text: str, session: Session) -> str:
    room = budget_for(session.client).error
    return text if room.holds(text) else shorten(text, room.first(text))


def _caller_of(client: ChainClient, session: Session) -> Caller:
    """The caller that backends know: its session, and on whose behalf it calls."""
    who = session.who
    return replace(
        client.caller, session=session.id, principal=who.id, user=who.user, is_remote=who.transport == "http"
    )
