"""Questions to the user in the middle of a script: both client eras, and nothing done twice."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.server import request_state
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from fixtures.direct import DEMO_SERVER, chain_value, run_chain, text_of
from fixtures.running import DEMO, client_of, gateway_in_process, running_app
from gatemini.protocol.questions.parking import PARKED_SECONDS

pytestmark = pytest.mark.anyio

BACKENDS: dict[str, dict[str, Any]] = {
    **DEMO,
    "odd": {"command": sys.executable, "args": ["-I", "-S", str(DEMO_SERVER.parent / "odd_server.py"), "{}"]},
}
CODE = """await demo.write({ key: "a", value: 1 });
const ok = await demo.confirm({ q: "go on?" });
await demo.write({ key: "b", value: ok });
return "end";"""


class User:
    """The user of a client, with one answer to every question."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer or {"action": "accept", "content": {"ok": True}}
        self.asked: list[str] = []

    async def __call__(self, _context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult.model_validate(self.answer)


async def stats(client: Client) -> dict[str, Any]:
    (told,) = await chain_value(client, "return [await demo.stats({})];")
    return dict(told)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_question_during_a_script_repeats_no_write(tmp_path: Path, mode: Any) -> None:
    user = User()
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode, elicitation_callback=user) as client:
        assert await chain_value(client, CODE) == "end"
        assert user.asked == ["go on?"]
        found = await stats(client)
        assert (found["writes"], list(found["written"])) == (2, ["a", "b"])
        assert found["written"]["b"] == {"ok": True, "action": "accept"}
        # A backend that asks by a request of its own, while its call is open.
        told = await chain_value(client, 'return await odd.ask({ method: "elicitation/create" });')
        assert told["result"] == {"action": "accept", "content": {"ok": True}}
        # Several questions of one chain, and one in the cheapest tier.
        both = 'return await Promise.all(["one?", "two?"].map((q) => demo.confirm({ q })));'
        assert [r["ok"] for r in await chain_value(client, both)] == [True, True]
        assert sorted(user.asked[2:4]) == ["one?", "two?"]
        single = await run_chain(client, '{"tool": "demo.confirm", "arguments": {"q": "three?"}}')
        assert json.loads(text_of(single))["ok"] is True
        user.answer = {"action": "decline"}
        assert (await chain_value(client, 'return await demo.confirm({ q: "four?" });'))["ok"] is False


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_without_elicitation_gets_an_error_that_says_so(tmp_path: Path, mode: Any) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode) as client:
        result = await run_chain(client, CODE)
        assert result.is_error
        assert "asks for input" in text_of(result)
        assert (await stats(client))["writes"] == 1


async def test_the_time_of_an_open_question_does_not_count_for_the_chain(tmp_path: Path) -> None:
    async def slow(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        """Answer only when another chain that began later has used up the same time."""
        over = await run_chain(client, "await new Promise(() => setTimeout(() => {}, 60000))", timeout=2000)
        assert over.is_error
        assert "timeout of 2,000 ms" in text_of(over)
        return ElicitResult(action="accept", content={"ok": True})

    async with gateway_in_process(tmp_path, BACKENDS, mode="legacy", elicitation_callback=slow) as client:
        await stats(client)
        assert await chain_value(client, CODE, timeout=2000) == "end"


# -- clients that call again -------------------------------------------------------------------------------


async def asked(client: Client, code: str = CODE, **more: Any) -> InputRequiredResult:
    result = await client.session.call_tool(
        "call_tool_chain", {"code": code, **more}, allow_input_required=True
    )
    assert isinstance(result, InputRequiredResult), result
    return result


async def again(client: Client, first: InputRequiredResult, code: str = CODE, **state: Any) -> CallToolResult:
    (key,) = first.input_requests or {}
    answers: Any = {key: ElicitResult(action="accept", content={"ok": True})}
    result = await client.session.call_tool(
        "call_tool_chain",
        {"code": code},
        input_responses=answers,
        request_state=state.get("state", first.request_state),
        allow_input_required=True,
    )
    assert isinstance(result, CallToolResult)
    return result


async def test_a_parked_chain_is_resumed_once_by_the_same_code_and_state(tmp_path: Path) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=User()) as client:
        first = await asked(client)
        state = str(first.request_state)
        (request,) = (first.input_requests or {}).values()
        assert request.method == "elicitation/create"
        forged = state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")
        for code, given in ((CODE + "\n", state), (CODE, forged), (CODE, "v1.nonsense"), (CODE, "")):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await again(client, first, code, state=given)
        assert (await stats(client))["writes"] == 1
        assert text_of(await again(client, first)) == "end"
        with pytest.raises(MCPError, match="no longer waiting"):
            await again(client, first)
        assert (await stats(client))["writes"] == 2


async def test_a_state_older_than_the_chain_waits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=User()) as client:
        first = await asked(client)
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(request_state.time, "time", lambda: now + PARKED_SECONDS + 1)
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await again(client, first)
        assert text_of(await again(client, first)) == "end"


async def test_a_session_outlives_its_connection_and_so_does_its_parked_chain(tmp_path: Path) -> None:
    async with running_app(tmp_path) as app:
        session = app.new_session()
        async with client_of(app, session, elicitation_callback=User()) as client:
            first = await asked(client)
        async with client_of(app, session, elicitation_callback=User()) as reconnected:
            assert text_of(await again(reconnected, first)) == "end"


async def test_another_session_cannot_resume_a_parked_chain(tmp_path: Path) -> None:
    async with (
        running_app(tmp_path) as app,
        client_of(app, elicitation_callback=User()) as client,
        client_of(app, elicitation_callback=User()) as other,
    ):
        first = await asked(client)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await again(other, first)


async def test_parked_chains_leave_the_places_of_running_guests_free(tmp_path: Path) -> None:
    top = {"sandbox": {"max_concurrent_sandboxes": 1}}
    async with gateway_in_process(tmp_path, BACKENDS, top=top, elicitation_callback=User()) as client:
        parked = [await asked(client) for _ in range(3)]
        assert await chain_value(client, "const x = 1; return x + 1;") == 2
        for first in parked:
            assert text_of(await again(client, first)) == "end"
        assert (await stats(client))["writes"] == 6


async def test_no_more_than_sixteen_chains_wait_for_their_users(tmp_path: Path) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=User()) as client:
        parked = [await asked(client) for _ in range(16)]
        refused = await run_chain(client, CODE)
        assert refused.is_error
        assert "16 chains wait for their users already" in text_of(refused)
        assert text_of(await again(client, parked[0])) == "end"
        await asked(client)
