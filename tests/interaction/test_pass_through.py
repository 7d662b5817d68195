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
from fixtures.running import gateway_in_process

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
    """The user of a client with every capability; keeps the questions, log lines and progress it gets."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget what came, and accept the next question."""
        self.asked: list[Any] = []
        self.elicited: dict[str, Any] = {"action": "accept", "content": {"colour": "green", "tags": ["x"]}}
        self.logged: list[tuple[str, str | None, Any]] = []
        self.progress: list[tuple[float, str | None]] = []

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append((params.level, params.logger, params.data))

    async def step(self, progress: float, _total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

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
        logging_callback=person.log,
        **more,
    ) as client:
        yield client


@pytest.fixture(scope="module", params=["legacy", "auto"])
async def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Client, Person]]:
    """One client of each era, of a gateway process of its own, with both backends."""
    person = Person()
    folder = tmp_path_factory.mktemp("asked")
    async with asked_everything(folder, person, BACKENDS, mode=request.param) as client:
        await told_of(client, "roots")  # what the backend asks by itself at its start is over
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


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.long), "auto"])
async def test_a_question_that_the_client_does_not_support_is_refused_at_once(
    tmp_path: Path, mode: Any
) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode) as client:
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


@pytest.mark.parametrize("mode", ["legacy", pytest.param("auto", marks=pytest.mark.long)])
async def test_a_backend_sees_exactly_the_capabilities_of_the_client(tmp_path: Path, mode: Any) -> None:
    tools = SamplingCapability(tools=SamplingToolsCapability())
    sampling = {"sampling_callback": Person().sample, "sampling_capabilities": tools}
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode, **sampling) as client:
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
    """Wait for what the old backend receives outside of any call."""
    with anyio.fail_after(60):
        while not (told := await chain_value(client, "return await old.told();")).get(key):
            pass
    return told[key]


async def test_a_backend_gets_the_roots_outside_of_a_call_from_a_client_of_the_handshake_era_only(
    client: Client,
) -> None:
    if client.protocol_version >= "2026-07-28":
        assert await told_of(client, "roots") in (
            ["file:///home/me/project"],  # when a call happened to be open
            "roots/list is passed on to this client only while a call of it is open",
            "roots/list was not answered in time, or its call has ended",
        )
        return
    assert await told_of(client, "roots") == ["file:///home/me/project"]
    assert "only while a call of it is open" in await told_of(client, "sampled")
    await client.session.send_notification(RootsListChangedNotification())
    assert await told_of(client, "roots_changed") == 1


LINES = [["debug", "small"], ["info", {"rows": 3}], ["error", "large"]]


def log(backend: str) -> str:
    return f"return await {backend}.log({json.dumps({'lines': LINES})});"


async def set_level(client: Client, level: Any) -> None:
    request = SetLevelRequest(params=SetLevelRequestParams(level=level))
    await client.session.send_request(request, EmptyResult)


@both_backends
async def test_log_messages_of_a_call_reach_the_client_from_the_level_it_set(
    client: Client, person: Person, backend: str
) -> None:
    newer = client.protocol_version >= "2026-07-28"
    meta: Any = {"io.modelcontextprotocol/logLevel": "info"} if newer else None
    for _ in range(2):  # the second call is served by the shortcut
        result = await client.call_tool("call_tool_chain", {"code": log(backend)}, meta=meta)
    assert person.logged == [("info", backend, {"rows": 3}), ("error", backend, "large")] * 2
    last = {"backend": backend, "level": "error", "data": "large"}
    assert (result.meta or {})["gatemini/chain"]["logged"][-1] == last
    person.logged.clear()
    if newer:
        result = await run_chain(client, log(backend))
        assert person.logged == []
        kept = (result.meta or {})["gatemini/chain"].get("logged", [])
        assert [line["level"] for line in kept] == (["debug", "info", "error"] if backend == "old" else [])
        return
    await set_level(client, "error")
    await chain_value(client, log(backend))
    assert person.logged == [("error", backend, "large")]
    if backend == "old":
        with anyio.fail_after(60):
            while (await chain_value(client, "return await old.told();"))["level"] != "error":
                pass
    await set_level(client, "info")


@pytest.mark.parametrize("backend", ["old", pytest.param("fresh", marks=pytest.mark.long)])
async def test_progress_of_a_backend_is_part_of_the_chains_progress_which_only_grows(
    client: Client, person: Person, backend: str
) -> None:
    steps = {"steps": [[1, 4], [2, 4], [1, 4], [3, None], [4, 4]], "pause": 0.1}
    call = f"await {backend}.progress({json.dumps(steps)}); await sleep(200);"
    code = f"{call} {call} return 1;"
    for _ in range(2):  # the second call is served by the shortcut
        person.progress.clear()
        await client.call_tool("call_tool_chain", {"code": code}, progress_callback=person.step)
        values = [value for value, _ in person.progress]
        assert values == sorted(set(values))
        assert [v for v in values if v == int(v)] == [1.0, 2.0]
        assert values[0] == 0.25
        assert person.progress[0][1] == f"{backend}.progress: at 1"


async def test_the_first_call_of_a_client_passes_log_messages_and_progress_on_too(tmp_path: Path) -> None:
    """Without the shortcut, which serves only the calls after it."""
    person = Person()
    steps = {"steps": [[1, 2], [2, 2]], "pause": 0.1}
    code = f"await old.progress({json.dumps(steps)}); await sleep(200); {log('old')}"
    async with gateway_in_process(
        tmp_path, {"old": BACKENDS["old"]}, mode="legacy", logging_callback=person.log
    ) as client:
        await client.call_tool("call_tool_chain", {"code": code}, progress_callback=person.step)
    assert person.logged == [("info", "old", {"rows": 3}), ("error", "old", "large")]
    assert [value for value, _ in person.progress] == [0.5, 0.99, 1.0]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize(
    "read",
    [
        'suite.readResource("test://asks")',
        '(await suite.getPrompt("test_input_required_result_prompt", {})).messages[0].content.text',
    ],
)
async def test_a_resource_or_prompt_that_asks_the_user_is_read_with_the_answer(
    tmp_path: Path, mode: str, read: str
) -> None:
    person = Person()
    person.elicited = {"action": "accept", "content": {"context": "the garden"}}
    backends = {"suite": {"transport": "python", "module": "fixtures.conformance.server:server"}}
    async with gateway_in_process(
        tmp_path, backends, elicitation_callback=person.elicit, mode=mode
    ) as client:
        assert text_of(await run_chain(client, f"return await {read};")) == "The context is the garden."
    assert len(person.asked) == 1


@pytest.mark.npm
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@both_clients
async def test_the_reference_server_asks_and_tells_through_the_gateway(tmp_path: Path, mode: Any) -> None:
    """On the TypeScript SDK: it lists tools of its own for each thing the client announced."""
    person = Person()
    person.elicited = {"action": "accept", "content": {"name": "Ann"}}
    backends = {"everything": {"command": "node", "args": [script("mcp-server-everything")]}}
    async with asked_everything(tmp_path, person, backends, mode=mode) as client:

        async def told(tool: str, arguments: str = "{}") -> str:
            code = f'return await everything["{tool}"]({arguments});'
            result = await client.call_tool("call_tool_chain", {"code": code}, progress_callback=person.step)
            assert not result.is_error, text_of(result)
            return text_of(result)

        assert '"text": "hi"' in await told("trigger-sampling-request", '{ prompt: "hello", maxTokens: 5 }')
        assert "Name: Ann" in await told("trigger-elicitation-request")
        assert "file:///home/me/project" in await told("get-roots-list")
        person.progress.clear()
        await told("trigger-long-running-operation", "{ duration: 0.2, steps: 4 }")
        shown = [value for value, _ in person.progress]
        assert shown
        assert shown == sorted(set(shown)), "steps within 50 ms of another are joined"
        assert set(shown) <= {0.25, 0.5, 0.75, 0.99, 1.0}
