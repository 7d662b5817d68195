"""`registration: ask`: the user of the client decides what is registered, in both eras of clients."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from fixtures.backend_bench import ODD
from fixtures.direct import chain_value, text_of, write_config
from fixtures.running import DEMO as BACKENDS
from fixtures.running import client_of, gateway_in_process
from gatemini.app import App
from gatemini.config.model.schema import RegistrationConfig

pytestmark = pytest.mark.anyio

EXTRA = {"name": "extra", "command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"]}
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


class User:
    """The user of a client, with one answer to every question."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[str] = []

    async def __call__(self, _context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult.model_validate({"action": self.action, "content": {}})


async def register(client: Client, template: Any) -> CallToolResult:
    result = await client.call_tool("register_manual", {"manual_call_template": template})
    assert isinstance(result, CallToolResult)
    return result


@ERAS
async def test_a_backend_that_the_user_accepts_is_registered_and_can_be_called(
    tmp_path: Path, mode: Any
) -> None:
    user = User()
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode, elicitation_callback=user) as client:
        assert await chain_value(client, "return 1;") == 1
        told = json.loads(text_of(await register(client, EXTRA)))
        assert told["backend"] == "extra"
        assert (await chain_value(client, "return (await extra.echo({ a: 5 })).a;")) == 5
        assert len(user.asked) == 1
        assert f"{sys.executable} -I -S {ODD}" in user.asked[0]
        assert "starts programs on this machine" in user.asked[0]


@ERAS
async def test_a_backend_that_the_user_does_not_accept_is_not_started(tmp_path: Path, mode: Any) -> None:
    touched = tmp_path / "started"
    template = {"name": "extra", "command": "touch", "args": [str(touched)]}
    user = User()
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode, elicitation_callback=user) as client:
        for user.action, did in (("decline", "declined"), ("cancel", "closed the question")):
            result = await register(client, template)
            assert result.is_error
            assert did in text_of(result)
            assert "nothing was registered" in text_of(result)
            assert not touched.exists()


@pytest.mark.parametrize("policy", [{"stdio": "deny"}, {"stdio": "ask", "allow_commands": ["other"]}])
async def test_a_registration_that_is_denied_while_the_user_is_asked_is_refused(
    tmp_path: Path, policy: dict[str, Any]
) -> None:
    touched = tmp_path / "started"
    template = {"name": "extra", "command": "touch", "args": [str(touched)]}
    async with App.open(write_config(tmp_path, BACKENDS), environ={}) as app:

        async def agree(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
            app.registration.admission.policy = RegistrationConfig.model_validate(policy)
            return ElicitResult(action="accept", content={})

        async with client_of(app, elicitation_callback=agree) as client:
            result = await register(client, template)
            assert result.is_error
            assert "RegistrationRefused" in text_of(result)
    assert not touched.exists()


@ERAS
async def test_registration_through_a_client_without_elicitation_is_refused_and_names_the_key(
    tmp_path: Path, mode: Any
) -> None:
    async with gateway_in_process(tmp_path, BACKENDS, mode=mode) as client:
        for template, key in (
            (EXTRA, "registration.stdio: allow"),
            ({"name": "lines", "tools": {"say": {"command": "echo hi"}}}, "registration.cli: allow"),
        ):
            result = await register(client, template)
            assert result.is_error
            assert "no elicitation" in text_of(result)
            assert key in text_of(result)


async def test_the_second_call_with_the_answer_starts_the_backend_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    code = f"open({str(starts)!r}, 'a').write('x'); import runpy; runpy.run_path({str(ODD)!r}, run_name='__main__')"
    arguments = {"manual_call_template": {**EXTRA, "args": ["-I", "-S", "-c", code, "{}"]}}
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=User()) as client:
        first = await client.session.call_tool("register_manual", arguments, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert not starts.exists()
        (key,) = first.input_requests or {}
        sent: Any = {key: ElicitResult(action="accept", content={})}

        async def again() -> Any:
            return await client.session.call_tool(
                "register_manual",
                arguments,
                input_responses=sent,
                request_state=first.request_state,
                allow_input_required=True,
            )

        assert json.loads(text_of(await again()))["backend"] == "extra"
        with pytest.raises(MCPError, match="no longer waiting"):
            await again()
        assert starts.read_text() == "x"


async def test_the_question_shows_every_key_that_is_set_as_the_agent_wrote_it(tmp_path: Path) -> None:
    user = User("decline")
    template = {
        **EXTRA,
        "args": ["--token", "seen-one", "--api-key=seen-two", "--eval", "a b\u202e"],
        "env": {"GITHUB_TOKEN": "seen-three", "LD_PRELOAD": "/x.so"},
        "cwd": "/srv",
        "prerequisite": {"command": "nc", "args": ["-l", "80"], "env": {"PASSWORD": "seen-four"}},
    }
    lines = {
        "name": "lines",
        "tools": {
            "args": {"command": "rm -r x", "shell": True},
            "input_schema": {"command": ["id", "-u n"]},
            "url": {"command": "curl y", "stdin": "told"},
        },
    }
    web = {
        "name": "web",
        "url": "http://me:seen-five@127.0.0.1:9/mcp?api_key=seen-six&page=2",
        "headers": {"Authorization": "Bearer seen-seven", "X-Team": "blue"},
    }
    top = {"registration": {"http": "ask", "allow_hosts": ["127.0.0.1"]}}
    async with gateway_in_process(tmp_path, BACKENDS, top=top, elicitation_callback=user) as client:
        for one in (template, lines, web):
            assert (await register(client, one)).is_error
    shown = "\n".join(user.asked)
    assert "«" not in shown
    assert "\u202e" not in shown
    for part in (
        "--token seen-one --api-key=seen-two --eval 'a b",
        "env.GITHUB_TOKEN: seen-three",
        "prerequisite.env.PASSWORD: seen-four",
        "headers.Authorization: Bearer seen-seven",
        "env.LD_PRELOAD: /x.so",
        "cwd: /srv",
        "prerequisite.command: nc -l 80",
        "tools.args.command: rm -r x",
        "tools.args.shell: true",
        "tools.input_schema.command: id '-u n'",
        "tools.url.command: curl y",
        "tools.url.stdin: told",
        "url: http://me:seen-five@127.0.0.1:9/mcp?api_key=seen-six&page=2",
        "headers.X-Team: blue",
    ):
        assert part in shown, part


async def test_a_secret_of_the_configuration_is_masked_as_a_value_and_refused_in_a_command_line(
    tmp_path: Path,
) -> None:
    user = User("decline")
    backends = {**BACKENDS, "mine": {"command": "x", "disabled": True, "env": {"KEY": "${OWN_KEY}"}}}
    config = write_config(tmp_path, backends)
    environ = {"OWN_KEY": "touch pwned; x"}
    async with (
        App.open(config, environ=environ) as app,
        client_of(app, elicitation_callback=user) as client,
    ):
        app.tools.redactor.add([("OWN_KEY", "touch pwned; x")])
        told = await register(client, {"name": "z", "command": "sh", "args": ["-c", "touch pwned; x"]})
        assert "configured secret" in text_of(told)
        assert user.asked == []
        shell = {"command": "sh", "args": ["-c", "$API_TOKEN"], "env": {"API_TOKEN": "touch pwned"}}
        await register(client, {"name": "z", **shell})
        assert "command: sh -c '$API_TOKEN'\n  env.API_TOKEN: touch pwned\n" in user.asked[0]


async def test_a_registration_too_long_to_be_shown_is_refused_without_a_question(tmp_path: Path) -> None:
    user = User()
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=user) as client:
        result = await register(client, {**EXTRA, "args": ["x" * 20_000]})
        assert "too long to be read" in text_of(result)
        assert user.asked == []


async def test_an_adapter_file_is_read_only_after_the_user_agreed(tmp_path: Path) -> None:
    user = User("decline")
    template = {"name": "lines", "adapter_file": str(tmp_path / "adapter.yaml")}
    (tmp_path / "adapter.yaml").write_text("tools:\n  say: {command: [echo, hello]}\n")
    async with gateway_in_process(tmp_path, BACKENDS, elicitation_callback=user) as client:
        missing = await register(client, {**template, "adapter_file": "/no/such/file"})
        assert text_of(missing) == text_of(await register(client, template))
        user.action = "accept"
        user.asked.clear()
        assert json.loads(text_of(await register(client, template)))["names"] == ["say"]
        assert len(user.asked) == 2
        assert "tools.say.command: echo hello" in user.asked[1]


@ERAS
async def test_a_registration_that_is_cancelled_during_its_question_registers_nothing(
    tmp_path: Path, mode: Any
) -> None:
    thinking = anyio.Event()

    async def never(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        thinking.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with gateway_in_process(tmp_path, BACKENDS, mode=mode, elicitation_callback=never) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(register, client, EXTRA)
            with anyio.fail_after(60):
                await thinking.wait()
            group.cancel_scope.cancel()
        result = await client.call_tool("deregister_manual", {"manual_name": "extra"})
        assert "no dynamic backend 'extra'" in text_of(result)
