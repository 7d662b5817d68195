"""Everything a client can request of the gateway, without any protocol: tools, resources, prompts.

There is one `Surface` per connection, since instructions and the inventory in `search_tools` are fixed for it.
`mcp_server.py` speaks MCP over it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import anyio.to_thread

from gatemini.backends.calls.callers import AskFn
from gatemini.backends.manager import Manager
from gatemini.chain.client import NO_CLIENT, CallRecord, ChainClient
from gatemini.discovery.search.index import SearchIndex
from gatemini.model import Json
from gatemini.policy.backend_use import may_use
from gatemini.protocol.definitions import tool_definitions
from gatemini.protocol.questions.clients import ConnectedClients
from gatemini.protocol.questions.parking import Parking
from gatemini.protocol.resources.documents import (
    HEALTH,
    RESULT,
    TOOL_KINDS,
    complete,
    list_resources,
    list_templates,
    read_resource,
    split_address,
)
from gatemini.protocol.resources.instructions import instructions
from gatemini.protocol.resources.listing import SCHEME
from gatemini.protocol.resources.prompts import PROMPTS, get_prompt
from gatemini.protocol.resources.view import View, seen_by, sees_backend
from gatemini.protocol.sessions.client_session import Session
from gatemini.protocol.tools import MetaTools
from gatemini.text.size_limit import weight
from gatemini.unlisted import FIRST_LISTING_SECONDS
from gatemini.upkeep.changes import Changes


class Surface:
    """The gateway as one session sees it."""

    def __init__(
        self,
        tools: MetaTools,
        view: Callable[[Session], View],
        index: SearchIndex,
        session: Session,
        parking: Parking,
        changes: Changes,
        clients: ConnectedClients,
        manager: Manager,
    ) -> None:
        self._tools = tools
        self._view_of = view
        self._index = index
        self.redactor = tools.redactor
        self.session = session
        self.parking = parking
        self.changes = changes
        self._clients = clients
        self._manager = manager
        self._definitions: list[Json] | None = None
        self.on_chain: Callable[[str | int | None, str], None] | None = None
        """Receives the id of a request and the id of the chain that it has started."""
        self.streams_here: Callable[[], bool] = lambda: True
        """Whether requests outside of calls can reach the client from this process."""
        self.planned_chain: Callable[[str | int | None], str | None] = lambda _: None
        """Gives the id that the chain of a request is to have, if that is known."""
        self.on_call: Callable[[CallRecord], None] | None = None
        """Receives each finished call to a backend."""

    def _view(self, session: Session) -> View:
        return seen_by(session.who, session.id, self._view_of(session), self._tools.chain.registry)

    def tool_definitions(self) -> list[Json]:
        """Return the seven meta-tools; fixed for the connection, since a change would break prompt caches."""
        if self._definitions is None:
            self._definitions = self.redactor.value(tool_definitions(self._inventory()))
        return self._definitions

    def _inventory(self) -> list[tuple[str, int]]:
        """Return the backends that the client sees, each with its number of tools."""
        who, chain = self.session.who, self._tools.chain
        shown = chain.listing(who).registry
        found = self._tools.catalog.inventory(shown)
        return [row for row in found if sees_backend(who, row[0], shown, chain.registry)]

    def renew_definitions(self) -> None:
        """Let the next list of tools say what is there now, for clients that connect anew to the same session."""
        self._definitions = None

    def instructions(self) -> str:
        return self.redactor.redact(instructions(self._inventory()))

    async def call_tool(self, name: str, arguments: Any, client: ChainClient = NO_CLIENT) -> Json:
        """Return the MCP result of a meta-tool; failures have `isError`. `client` receives requests and notifications."""
        if self.on_call is not None:
            client = replace(client, on_call_done=_each(self.on_call, client.on_call_done))
        return await self._tools.call(name, arguments, self.session, client)

    def tells_begin(self, request: str | int | None) -> Callable[[str], None] | None:
        """Return what receives the id of the chain of this request, if anything does."""
        return None if self.on_chain is None else functools.partial(self.on_chain, request)

    def learn_client(self, can: Json, ask: AskFn | None) -> None:
        """Record the client's capabilities; `ask` sends it requests outside of its calls (None: it has no way)."""
        self._clients.learn(self.session.id, can, ask, self._may_use)

    def _may_use(self, backend: str) -> bool:
        """Whether the client could call or read something of a backend."""
        # Not `session.who`: another client's request may be at hand.
        who, chain = self.session.principal, self._tools.chain
        if backend in self._manager.of_others(self.session.id):
            return False
        if chain.door is None or chain.listing(who).registry.backend_tools(backend):
            return True
        listed = bool(chain.registry.backend_tools(backend))
        return may_use(chain.door, self._manager.config(backend), who, listed=listed)

    def set_log_level(self, level: str) -> None:
        """Set the least level of backends' log messages that the client receives."""
        self.session.log_level = level
        self._manager.set_log_level(self._clients.least_level(self.session.id, level))

    @property
    def policy_revision(self) -> str:
        """The revision of the policy in force, "" for none."""
        door = self._tools.chain.door
        return "" if door is None else door.revision

    def hides(self, backend: str | None) -> bool:
        """Whether the client sees no changes of this backend: another session has registered it, or it cannot reach it."""
        if backend is None:
            return False
        if backend in self._manager.of_others(self.session.id):
            return True
        # Not `session.who`: another client's request may be at hand.
        who, chain = self.session.principal, self._tools.chain
        return not sees_backend(who, backend, chain.listing(who).registry, chain.registry)

    def roots_changed(self) -> None:
        self._manager.roots_changed()

    def redacted(self, ask: AskFn) -> AskFn:
        """Return `ask` with the secrets of the configuration removed from its parameters."""

        async def asks(method: str, params: Json) -> Json:
            return await ask(method, self.redactor.value(params))

        return asks

    def list_resources(self) -> list[Json]:
        found: list[Json] = self.redactor.value(list_resources(self._view(self.session)))
        return found

    def list_resource_templates(self) -> list[Json]:
        found: list[Json] = self.redactor.value(list_templates(self._view(self.session)))
        return found

    def count_answer(self, method: str, returned: int) -> None:
        """Count an answer that is made elsewhere: a list, the instructions, a refusal."""
        self._tools.count_answer(method, returned, self.session)

    async def read_resource(self, uri: str) -> tuple[str, str]:
        """Return (MIME type, text) and count it as an answer. Raises ResourceNotFound or ResultGone."""
        kind, rest = split_address(uri)
        if kind in TOOL_KINDS:
            await self.listed()
        if kind == HEALTH:
            await self._manager.measure_new()
        if kind == RESULT and (replicas := self.session.results.replicas) is not None:
            await replicas.fetch(unquote(rest.partition("/")[0]))
        view = self._view(self.session)
        if kind == RESULT:  # the first read of a large result parses all of it
            mime, text = await anyio.to_thread.run_sync(read_resource, view, uri)
        else:
            mime, text = read_resource(view, uri)
        text = self.redactor.redact(text)
        self._tools.count_answer(f"{SCHEME}{kind}", weight(text), self.session)
        return mime, text

    async def listed(self) -> None:
        """Wait briefly for backends that have not listed their tools: an answer without them would mislead."""
        await self._tools.chain.unlisted(FIRST_LISTING_SECONDS)

    def list_prompts(self) -> list[Json]:
        return PROMPTS

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Json:
        """Return the prompt's messages and count them as an answer. Raises ResourceNotFound or InvalidRequest."""
        meaning = (
            await self._tools.catalog.meaning(arguments.get("task", "")) if name == "find_tool" else None
        )
        made = get_prompt(self._view(self.session), self._index, name, arguments, meaning)
        prompt: Json = self.redactor.value(made)
        said = sum(weight(message["content"]["text"]) for message in prompt["messages"])
        self._tools.count_answer(f"prompt {name}", said, self.session)
        return prompt

    def complete(self, argument: str, value: str) -> tuple[list[str], int]:
        """Return (values for an argument of a template or prompt, how many there are in all)."""
        values, total = complete(self._view(self.session), argument, value)
        return [self.redactor.redact(found) for found in values], total


def _each(
    first: Callable[[CallRecord], None], second: Callable[[CallRecord], None] | None
) -> Callable[[CallRecord], None]:
    def both(record: CallRecord) -> None:
        first(record)
        if second is not None:
            second(record)

    return both
