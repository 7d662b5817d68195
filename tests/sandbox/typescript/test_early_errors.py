"""Early errors that only the engine finds are placed at what breaks the rule, not where the engine had read on to."""

from __future__ import annotations

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.errors import ReadingTooLong
from gatemini_sandbox.guests import step_reader
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.messages import Failed
from gatemini_sandbox.typescript.diagnosis import places as blame
from gatemini_sandbox.typescript.diagnosis.early_errors import find_early
from gatemini_sandbox.typescript.diagnosis.places import refine
from gatemini_sandbox.typescript.parse_deadline import patience

# « marks the position that the error must have.
BROKEN = [
    "const «b;",
    "const a1 = 1, «b: number;",
    "while (o) { break } «break;",
    "for (;;) { [1].map(() => { «continue; }); }",
    "{ let o = 1; } const «o = 2;",
    "let g = 1; function «g() {}",
    "class «o {}",
    "function g(p) { { let p; } let «p = 1; }",
    "try { } catch (e) { var e; let «e = 1; }",
    "switch (o) { case 1: let q = 1; break; case 2: let «q = 2 }",
    "const g = () => «{ x: 1, y: 2 };",
    "[1].map((x: number) => «{ id: x, n: 2 });",
    "o.a «?? o.b || o.c;",
    "(o.a ?? o.b) || o.c; o.a && o.b «?? o.c;",
]
AROUND = {
    "on a line of its own": "async function run(o: any) {{\n  const list: number[] = [1,\n    2];\n  {broken}\n  return o;\n}}\nconst r =\n  await run({{}});\nreturn r;",
    "on the first line": "type T = {{ a: 1 }}; let o: any = {{ p: 1 }}; {broken}\nreturn o;",
}


@pytest.mark.anyio
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_rule_is_placed_where_it_is_broken(sandbox: Sandbox, broken: str, around: str):
    marked = AROUND[around].format(broken=broken)
    before = marked[: marked.index("«")]
    end = await Runner(sandbox)(marked.replace("«", ""))
    assert isinstance(end, Failed)
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert (end.error.name, end.error.line, end.error.column) == ("SyntaxError", *place), end.error.message


@pytest.mark.anyio
async def test_a_broken_rule_without_a_node_is_placed_at_its_statement(sandbox: Sandbox):
    end = await Runner(sandbox)("const a: number = 1;\n  const q = {\n get x(a) { return 1 } };")
    assert isinstance(end, Failed)
    assert (end.error.line, end.error.column) == (2, 3)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "code", ["const a = 1;\nreturn eval('const x;')", "const a = 1;\nreturn new Function('const x;')()"]
)
async def test_code_that_the_code_makes_is_placed_where_it_is_made(sandbox: Sandbox, code: str):
    end = await Runner(sandbox)(code)
    assert isinstance(end, Failed)
    assert (end.error.name, end.error.line, end.error.column) == ("SyntaxError", 2, 8)


@pytest.mark.parametrize("message", ["break must be inside", "invalid redefinition", "a rule not known"])
def test_the_search_for_a_broken_rule_ends_at_its_time_limit(message: str):
    with patience(0.0), pytest.raises(ReadingTooLong):
        find_early("a + " * 800 + "a;\nlet q;", message, 2, 5)


@pytest.mark.parametrize("message", ["not a function", "cannot read property 'w' of null"])
def test_the_search_for_the_failed_node_checks_its_time_limit_at_every_step(
    message: str, monkeypatch: pytest.MonkeyPatch
):
    asked = list[None]()
    monkeypatch.setattr(blame, "check", lambda: asked.append(None))
    js = f"function f() {{\nconst x = q.y() + {' + '.join(['a'] * 300)};\nnull.w }}"
    refine(js, "TypeError", message, [("f", 2, 12)])
    assert len(asked) > 600


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "message", "line"),
    [
        ("const a = 1;\nbreak\n;", "break must be inside", 3),
        ("const a = 1;\nnull.x;", "cannot read", 1),
    ],
)
async def test_an_error_that_takes_too_long_to_locate_keeps_the_position_of_the_engine(
    sandbox: Sandbox, code: str, message: str, line: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(step_reader, "PLACING_SECONDS", 0.0)
    end = await Runner(sandbox)(code)
    assert isinstance(end, Failed)
    assert end.error.message.startswith(message)
    assert end.error.line == line
