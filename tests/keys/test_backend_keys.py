"""Keys of one backend that change what a chain is answered: once as shipped, once with the key changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.backend_bench import ODD
from fixtures.config_keys import Changed, row
from fixtures.running import DEMO

pytestmark = [pytest.mark.anyio, pytest.mark.long]

PYTHON = [sys.executable, "-I", "-S"]
NAMES = "return (await gatemini.list_tools_meta({})).tools;"
PARALLEL = "await Promise.all([1, 2, 3].map(() => demo.sleep({ ms: 50 }))); return (await demo.stats()).most_running;"
TWICE = "const all = [await demo.echo({}), await demo.echo({ n: 7 })]; return 'both ' + all.length;"
ENV = "return (await demo.env({})).PASSED_ON ?? 'not there';"


def odd(options: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A configuration with the odd server and these options as its backend."""
    args = [*PYTHON[1:], str(ODD), json.dumps(options or {})]
    return {"backends": {"demo": {"command": PYTHON[0], "args": args, **keys}}}


def cli(**keys: Any) -> dict[str, Any]:
    """A configuration with a command-line adapter that has the tool `demo`."""
    tool = {"command": ["echo", "hello {{x}}"], **keys}
    return {"backends": {"demo": {"transport": "cli-adapter", "tools": {"demo": tool}}}}


def limited(max_calls: int, window: str) -> dict[str, Any]:
    return {"backends": {"demo": {**DEMO["demo"], "rate_limit": {"max_calls": max_calls, "window": window}}}}


OTHER_TOOLS = json.dumps({"tools": [{"name": "quite_another", "inputSchema": {"type": "object"}}]})
ADD = "return await demo.demo({ x: 'you' });"
TOOL_INFO = "return await gatemini.tool_info({ tool_name: 'demo.demo', detail: 'full' });"

BACKEND = [
    row("backends.*.command", "no-such-program-here", "return await demo.echo({ n: 1 });", '"n":1', "not in PATH", base=odd()),
    row("backends.*.args", [*PYTHON[1:], str(ODD), OTHER_TOOLS], NAMES, "demo.echo", "quite_another", base=odd()),
    row("backends.*.env", {"PASSED_ON": "yes"}, ENV, "not there", "^yes", base=odd()),
    row("backends.*.inherit_env", ["PASSED_ON"], ENV, "not there", "^from outside", base=odd()),
    row("backends.*.module", "fixtures.text_server:server", NAMES, "demo.echo", r"^\[?(?!.*echo)"),
    row("backends.*.namespace", "elsewhere", NAMES, "demo.echo", "elsewhere.echo"),
    row("backends.*.tags", ["money"], "return (await gatemini.search_tools({ task_description: 'echo', tag: 'money' })).results.length;", "no tool has the tag", "^[1-9]"),
    row("backends.*.timeout", "100ms", "return await demo.sleep({ ms: 600, tag: 'woke' });", "woke", r"0.1 s \(backends.demo.timeout\)"),
    row("backends.*.connect_timeout", "200ms", "return await demo.echo({ n: 1 });", '"n":1', "connect_timeout", base=odd({"delay": 0.5})),
    row("backends.*.max_concurrent_calls", 1, PARALLEL, "^3", "^1"),
    row("backends.*.semaphore_timeout", "20ms", "await Promise.all([1, 2].map(() => demo.sleep({ ms: 500 }))); return 'both';", "^both", "max_concurrent_calls",
        base={"backends": {"demo": {**DEMO["demo"], "max_concurrent_calls": 1}}}),
    row("backends.*.max_message_mb", 1, "return (await demo.big({ bytes: 2000000 })).length;", "^2000000", "max_message_mb", base=odd()),
    row("backends.*.rate_limit.max_calls", 1, TWICE, "^both", "rate_limit", base=limited(2, "1h")),
    row("backends.*.rate_limit.window", "1ms", TWICE, "rate_limit", "^both", base=limited(1, "1h")),
    row("backends.*.fallback_chain", ["spare"], TWICE, "rate_limit", "^both",
        base={"backends": {**limited(1, "1h")["backends"], "spare": DEMO["demo"]}}),
    row("backends.*.tools.allow", ["ad*"], NAMES, "demo.echo", r"^\[\"demo.add\"\]"),
    row("backends.*.tools.deny", ["echo"], NAMES, "demo.echo", r"^(?!.*echo)"),
    row("backends.*.disabled", True, "return await demo.echo({ n: 1 });", '"n":1', "(?!.*\"n\":1)demo"),
    row("backends.*.tools.*.description", "Greets whoever is named.", TOOL_INFO, "demo", "Greets whoever", base=cli()),
    row("backends.*.tools.*.input_schema", {"type": "object", "properties": {"x": {}, "y": {}}, "required": ["y"]}, ADD, "hello you", "y.*required|required.*y|missing", base=cli()),
    row("backends.*.tools.*.command", ["echo", "bye {{x}}"], ADD, "hello you", "bye you", base=cli()),
    row("backends.*.tools.*.stdin", "piped {{x}}", ADD, "^$|\"\"", "piped you", base=cli(command=["cat"])),
    row("backends.*.tools.*.output", "lines", ADD, "^hello you", r"^\[\"hello you\"\]$", base=cli()),
    row("backends.*.tools.*.cwd", "/usr", ADD, "^/(?!usr)", "^/usr", base=cli(command=["pwd"])),
    row("backends.*.tools.*.timeout", "100ms", ADD, "^$|\"\"", "0.1 s|100 ms", base=cli(command=["sleep", "0.7"])),
    row("backends.*.tools.*.shell", True, ADD, r"\$\(\(", "^42", base=cli(command="echo $((40 + 2))")),
    row("backends.*.tools.*.allow_leading_dash", True, "return await demo.demo({ x: '-you' });", "allow_leading_dash", "^-you", base=cli(command=["echo", "{{x}}"])),
    row("backends.*.tools.*.annotations", {"readOnlyHint": True}, TOOL_INFO, "demo", "readOnly", base=cli()),
]  # fmt: skip


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSED_ON", "from outside")


@pytest.mark.parametrize("changed", BACKEND)
async def test_a_chain_is_answered_otherwise_when_the_backends_key_is_changed(
    tmp_path: Path, changed: Changed
) -> None:
    await changed.shows(tmp_path)
