"""Every call of every tier passes the door before it leaves, and nothing else in the gateway can send one."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gatemini
from fixtures.running import DEMO, answer, threaded_app
from gatemini.app import App
from gatemini.config.model.schema import CompositeTool, PolicyConfig
from gatemini.policy.decision import Decision
from gatemini.policy.door import Admission, Door
from gatemini.policy.facts import CallEnd, CallFacts

pytestmark = pytest.mark.anyio

SOURCES = Path(gatemini.__file__).parent

SENDERS = {"call_tool", "read", "read_resource", "get_prompt", "list_offers"}
"""Names of the methods of a backend's session and of the manager that send something for an agent."""
OWNERS = {"backends", "manager", "_manager", "session", "s", "instance", "backend"}
"""What such a method is called on; a file, a surface and a client have methods of the same names."""


def sends(source: str) -> set[str]:
    """The methods in a source that may send something to a backend, whether they are called or handed on."""
    methods = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in SENDERS
    ]
    return {ast.unparse(m) for m in methods if ast.unparse(m.value).rpartition(".")[2] in OWNERS}


def test_no_file_but_invoke_sends_a_call_to_a_backend() -> None:
    outside = [path for path in SOURCES.rglob("*.py") if "backends" not in path.relative_to(SOURCES).parts]
    found = {path.relative_to(SOURCES).as_posix(): sends(path.read_text("utf-8")) for path in outside}
    assert {name: calls for name, calls in found.items() if calls} == {
        "chain/invoke.py": {
            "self.services.backends.call_tool",
            "self.services.backends.read",
            "s.list_offers",
            "s.get_prompt",
            "s.read_resource",
        }
    }


class Recorder(Door):
    """A door that notes what it admits and how it ended, and denies what is named."""

    def __init__(self, *denied: str) -> None:
        super().__init__(PolicyConfig())
        self.denied = denied
        self.seen: list[CallFacts] = []
        self.ended: list[tuple[str, str]] = []

    def _rules(self, facts: CallFacts) -> Decision:
        self.seen.append(facts)
        action = "deny" if facts.qualified in self.denied else "allow"
        return Decision("deny" if action == "deny" else "allow", "the test", "so that it is seen")

    def settle(self, admission: Admission, end: CallEnd) -> None:
        self.ended.append((admission.facts.qualified, end.outcome))


SPARE = {"transport": "python", "module": "fixtures.demo_server:server"}
BACKENDS = {
    **DEMO,
    "spare": SPARE,
    "broken": {"transport": "stdio", "command": "/nonexistent/program", "fallback_chain": ["spare"]},
}
COMPOSITES = {"twice": CompositeTool(code="await demo.stats({}); return await demo.add({ a: 1, b: 1 });")}


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with threaded_app(tmp_path_factory.mktemp("door"), BACKENDS) as running:
        running.set_composite_tools(COMPOSITES)
        yield running


CALLS = [
    ('{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}', ["demo.add"]),
    ("await demo.add({ a: 1, b: 2 })", ["demo.add"]),
    ('[{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}]', ["demo.add"]),
    ("const x = await demo.add({ a: 1, b: 2 }); return x;", ["demo.add"]),
    ("const x = await demo.add.raw({ a: 1, b: 2 }); return x;", ["demo.add"]),
    ("return await __backends['demo'].add({ a: 1, b: 2 });", ["demo.add"]),
    ("return await composite.twice({});", ["__composite.twice", "demo.stats", "demo.add"]),
    ("return await demo.readResource('demo://greeting');", ["demo.readResource"]),
    ("return await demo.getPrompt('x', {});", ["demo.getPrompt"]),
    ("return await demo.listResources();", ["demo.listResources"]),
    ("const x = await broken.add({ a: 1, b: 2 }); return x;", ["broken.add", "spare.add"]),
]


@pytest.mark.parametrize(("code", "passed"), CALLS, ids=[code for code, _ in CALLS])
async def test_a_call_of_each_kind_passes_the_door(app: App, code: str, passed: list[str]) -> None:
    door = app.chain.door = Recorder()
    text, _, meta = await answer(app, code)
    assert [facts.qualified for facts in door.seen] == passed, text
    assert sorted(name for name, _ in door.ended) == sorted(passed)
    assert {facts.chain for facts in door.seen} == {meta["id"]}
    assert len({facts.session for facts in door.seen}) == 1


async def test_a_denied_call_names_rule_and_reason_and_is_never_sent(app: App) -> None:
    door = app.chain.door = Recorder("demo.add")
    text, failed, meta = await answer(app, "await demo.add({ a: 1, b: 2 })")
    assert failed
    assert "PolicyDenied: demo.add is denied by the test: so that it is seen" in text
    (call,) = meta["calls"]
    assert call["outcome"].startswith("error: ")
    assert door.ended == []


async def test_a_fallback_that_is_denied_does_not_answer(app: App) -> None:
    door = app.chain.door = Recorder("spare.add")
    text, failed, _ = await answer(app, "await broken.add({ a: 1, b: 2 })")
    assert failed
    assert "its fallback was refused: spare.add is denied by the test" in text
    assert [name for name, _ in door.ended] == ["broken.add"]
