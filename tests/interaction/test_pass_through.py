"""What backends ask and tell a client: elicitation, sampling, roots, logs and progress, in both eras at both ends."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    EmptyResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
    RootsListChangedNotification,
    SamplingCapability,
    SamplingToolsCapability,
    SetLevelRequest,
    SetLevelRequestParams,
    TextContent,
)

from fixtures.direct import TESTS, chain_value, gateway, run_chain, text_of
from fixtures.npm import missing, script

pytestmark = pytest.mark.anyio

SERVER = str(TESTS / "fixtures" / "asking_server.py")
BACKENDS: dict[str, dict[str, Any]] = {
    "old": {"command": sys.executable, "args": ["-P", SERVER, "handshake"]},
    "fresh": {"command": sys.executable, "args": ["-P", SERVER]},
}
HELLO = {"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}], "maxTokens": 5}
TOOL = {"name": "look", "inputSchema": {"type": "object"}}
COLOURS = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "L"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
    },
    "required": ["colour"],
}

both_clients = pytest.mark.parametrize("mode", ["legacy", "auto"])
both_backends = pytest.mark.parametrize("backend", ["old", "fresh"])


class Person:
    """Whoever sits in front of a client that can be asked everything."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Asked nothing yet, and ready to accept."""
        self.asked: list[Any] = []
        self.elicited: dict[str, Any] = {"action": "accept", "content": {"colour": "green", "tags": ["x"]}}

    async def elicit(self, _context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params)
        return ElicitResult.model_validate(self.elicited)

    async def sample(
        self, _context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        self.asked.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(text="hi"), model="small")

    async def roots(self, _context: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri="file:///home/me/project", name="project")])


def only(backend: str) -> dict[str, dict[str, Any]]:
    return {backend: BACKENDS[backend]}


@asynccontextmanager
async def asked_everything(
    folder: Path, person: Person, backends: dict[str, dict[str, Any]], **more: Any
) -> AsyncIterator[Client]:
    async with gateway(
        folder,
        backends,
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
        **more,
    ) as client:
        yield client


@pytest.fixture(scope="module", params=["legacy", "auto"])
async def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Client, Person]]:
    """A client of either era that can be asked everything, and who is asked; one for all questions of a call."""
    person = Person()
    folder = tmp_path_factory.mktemp("asked")
    async with asked_everything(folder, person, BACKENDS, mode=request.param) as client:
        await told_of(client, "roots")  # what it asks by itself at its start is over
        yield client, person


@pytest.fixture
def client(asked: tuple[Client, Person]) -> Client:
    return asked[0]


@pytest.fixture
def person(asked: tuple[Client, Person]) -> Person:
    asked[1].begin()
    return asked[1]


async def ask(client: Client, backend: str, method: str, params: dict[str, Any] | None = None) -> Any:
    with_params = {} if params is None else {"params": params}
    # Through the sandbox, where a chain with everything it holds is what waits for the answer.
    code = f"const a = {{}}; return await {backend}.ask(Object.assign(a, ARGS));"
    arguments = {"method": method, **with_params}
    return await chain_value(client, code.replace("ARGS", json.dumps(arguments)))


@both_backends
async def test_sampling_reaches_the_clients_model_and_its_answer_the_backend(
    client: Client, person: Person, backend: str
) -> None:
    answer = await ask(client, backend, "sampling/createMessage", HELLO)
    assert (answer["content"]["text"], answer["model"]) == ("hi", "small")
    (seen,) = person.asked
    assert (seen.max_tokens, seen.messages[0].content.text) == (5, "hello")


@both_backends
async def test_a_form_with_choices_reaches_the_person_and_the_answer_the_backend(
    client: Client, person: Person, backend: str
) -> None:
    form = {"mode": "form", "message": "which?", "requestedSchema": COLOURS}
    answer = await ask(client, backend, "elicitation/create", form)
    assert answer == {"action": "accept", "content": {"colour": "green", "tags": ["x"]}}
    assert person.asked[0].requested_schema["properties"]["colour"]["enum"] == ["red", "green"]
    for action in ("decline", "cancel"):
        person.elicited = {"action": action}
        assert await ask(client, backend, "elicitation/create", form) == {"action": action}
    address = {"mode": "url", "message": "log in", "url": "https://x.test/", "elicitationId": "e1"}
    person.elicited = {"action": "accept"}
    assert await ask(client, backend, "elicitation/create", address) == {"action": "accept"}
    assert (person.asked[-1].mode, person.asked[-1].url) == ("url", "https://x.test/")


@both_backends
async def test_the_roots_of_the_client_reach_the_backend(client: Client, backend: str) -> None:
    answer = await ask(client, backend, "roots/list")
    assert answer == {"roots": [{"uri": "file:///home/me/project", "name": "project"}]}


@both_clients
async def test_what_a_client_cannot_be_asked_is_refused_at_once(tmp_path: Path, mode: Any) -> None:
    async with gateway(tmp_path, BACKENDS, mode=mode) as client:
        for backend in BACKENDS:
            assert (await chain_value(client, f"return await {backend}.told();"))["announced"] == {}
            for method, params in (("sampling/createMessage", HELLO), ("roots/list", None)):
                arguments = json.dumps({"method": method, **({"params": params} if params else {})})
                with anyio.fail_after(60):
                    result = await run_chain(client, f"return await {backend}.ask({arguments});")
                if backend == "old":
                    assert json.loads(text_of(result))["code"] == -32601
                else:
                    assert result.is_error
                    assert "asks for input" in text_of(result)


@both_clients
async def test_a_backend_is_told_of_exactly_what_the_client_can(tmp_path: Path, mode: Any) -> None:
    tools = SamplingCapability(tools=SamplingToolsCapability())
    sampling = {"sampling_callback": Person().sample, "sampling_capabilities": tools}
    async with gateway(tmp_path, BACKENDS, mode=mode, **sampling) as client:
        for backend in BACKENDS:
            told = await chain_value(client, f"return await {backend}.told();")
            assert told["announced"] == {"sampling": {"tools": {}}}, backend
            assert "announced no roots" in await refused(client, backend, "roots/list"), backend


async def refused(client: Client, backend: str, method: str, params: dict[str, Any] | None = None) -> str:
    arguments = json.dumps({"method": method, **({"params": params} if params else {})})
    return text_of(await run_chain(client, f"return await {backend}.ask({arguments});"))


async def test_tools_in_sampling_are_for_clients_that_take_them(client: Client) -> None:
    with_tools = {**HELLO, "tools": [TOOL]}
    assert "takes no tools" in await refused(client, "old", "sampling/createMessage", with_tools)


async def told_of(client: Client, key: str) -> Any:
    """What the old backend was told outside of any call, once it was."""
    with anyio.fail_after(60):
        while not (told := await chain_value(client, "return await old.told();")).get(key):
            pass
    return told[key]


async def test_outside_of_a_call_only_the_roots_are_given(tmp_path: Path) -> None:
    async with asked_everything(tmp_path, Person(), only("old"), mode="legacy") as client:
        assert await told_of(client, "roots") == ["file:///home/me/project"]
        assert "only while a call of it is open" in await told_of(client, "sampled")
        await client.session.send_notification(RootsListChangedNotification())
        assert await told_of(client, "roots_changed") == 1


async def test_roots_are_asked_of_a_newer_client_when_its_call_can_be_answered(tmp_path: Path) -> None:
    async with asked_everything(tmp_path, Person(), only("old")) as client:
        assert await told_of(client, "roots") in (
            ["file:///home/me/project"],  # when a call happened to be open
            "this client can be asked roots/list only while a call of it is open",
        )


# -- what is told ------------------------------------------------------------------------------------------


class Ear:
    """Keeps what the client is told."""

    def __init__(self) -> None:
        self.logged: list[tuple[str, str | None, Any]] = []
        self.progress: list[tuple[float, str | None]] = []

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append((params.level, params.logger, params.data))

    async def step(self, progress: float, _total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))


LINES = [["debug", "small"], ["info", {"rows": 3}], ["error", "large"]]


def log(backend: str) -> str:
    return f"return await {backend}.log({json.dumps({'lines': LINES})});"


@both_backends
async def test_log_messages_of_a_call_reach_a_client_of_the_handshake_era_from_its_level_on(
    tmp_path: Path, backend: str
) -> None:
    ear = Ear()
    async with gateway(tmp_path, only(backend), mode="legacy", logging_callback=ear.log) as client:
        for _ in range(2):  # the long way, then the short one
            await chain_value(client, log(backend))
        name = backend
        assert ear.logged == [("info", name, {"rows": 3}), ("error", name, "large")] * 2
        ear.logged.clear()
        set_level = SetLevelRequest(params=SetLevelRequestParams(level="error"))
        await client.session.send_request(set_level, EmptyResult)
        await chain_value(client, log(backend))
        assert ear.logged == [("error", name, "large")]
        with anyio.fail_after(60):
            while backend == "old":
                if (await chain_value(client, "return await old.told();"))["level"] == "error":
                    break


@both_backends
async def test_log_messages_reach_a_newer_client_that_asks_for_them_and_meta_in_any_case(
    tmp_path: Path, backend: str
) -> None:
    ear = Ear()
    async with gateway(tmp_path, only(backend), logging_callback=ear.log) as client:
        result = await run_chain(client, log(backend))
        assert ear.logged == []
        kept = (result.meta or {})["gatemini/chain"].get("logged", [])
        assert [line["level"] for line in kept] == (["debug", "info", "error"] if backend == "old" else [])
        for _ in range(2):
            result = await client.call_tool(
                "call_tool_chain", {"code": log(backend)}, meta={"io.modelcontextprotocol/logLevel": "info"}
            )
        assert ear.logged == [("info", backend, {"rows": 3}), ("error", backend, "large")] * 2
        assert (result.meta or {})["gatemini/chain"]["logged"][-1] == {
            "backend": backend,
            "level": "error",
            "data": "large",
        }


@both_clients
@both_backends
async def test_progress_of_a_backend_is_part_of_the_chains_which_only_grows(
    tmp_path: Path, mode: Any, backend: str
) -> None:
    ear = Ear()
    steps = {"steps": [[1, 4], [2, 4], [1, 4], [3, None], [4, 4]]}
    code = f"for (const n of [1, 2]) await {backend}.progress({json.dumps(steps)}); return 1;"
    async with gateway(tmp_path, only(backend), mode=mode) as client:
        for _ in range(2):  # the long way, then the short one
            ear.progress.clear()
            await client.call_tool("call_tool_chain", {"code": code}, progress_callback=ear.step)
            values = [value for value, _ in ear.progress]
            assert values == sorted(set(values))
            assert values[:2] == [0.25, 0.5]
            assert [v for v in values if v == int(v)] == [1.0, 2.0]
            assert ear.progress[0][1] == f"{backend}.progress: at 1"


# -- a server nobody here wrote ----------------------------------------------------------------------------


@pytest.mark.npm
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@both_clients
async def test_the_reference_server_asks_and_tells_through_the_gateway(tmp_path: Path, mode: Any) -> None:
    """On the TypeScript SDK: it lists tools of its own for each thing the client announced."""
    person, ear = Person(), Ear()
    person.elicited = {"action": "accept", "content": {"name": "Ann"}}
    backends = {"everything": {"command": "node", "args": [script("mcp-server-everything")]}}
    async with gateway(
        tmp_path,
        backends,
        mode=mode,
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
    ) as client:

        async def told(tool: str, arguments: str = "{}") -> str:
            code = f'return await everything["{tool}"]({arguments});'
            result = await client.call_tool("call_tool_chain", {"code": code}, progress_callback=ear.step)
            assert not result.is_error, text_of(result)
            return text_of(result)

        assert '"text": "hi"' in await told("trigger-sampling-request", '{ prompt: "hello", maxTokens: 5 }')
        assert "Name: Ann" in await told("trigger-elicitation-request")
        assert "file:///home/me/project" in await told("get-roots-list")
        ear.progress.clear()
        await told("trigger-long-running-operation", "{ duration: 0.2, steps: 4 }")
        assert [value for value, _ in ear.progress] == [0.25, 0.5, 0.75, 0.99, 1.0]
