"""The guest's stack: at every depth up to the limit a right result or a StackError, never anything else."""

from __future__ import annotations

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.messages import Done, Failed

pytestmark = pytest.mark.anyio

# Each nests to depth n and gives a value that shows whether every level was right.
WALKS = {
    "calls": "const f = (k) => (k === 0 ? 0 : 1 + f(k - 1)); return f(n)",
    "methods": "class A { f(k) { return k === 0 ? 0 : 1 + this.f(k - 1) } } return new A().f(n)",
    "reduce": "const f = (k) => (k === 0 ? 0 : [1].reduce((a, b) => a + b + f(k - 1), 0)); return f(n)",
    "map": "const f = (k) => (k === 0 ? 0 : [k].map((x) => 1 + f(x - 1))[0]); return f(n)",
    "replace": "const f = (k) => (k === 0 ? '' : 'a'.replace(/a/, () => 'b' + f(k - 1))); return f(n).length",
    "sort": "const f = (k) => { if (k === 0) return 0; let r; [2, 1].sort(() => { r ??= 1 + f(k - 1); return 0 }); return r }; return f(n)",
    "getters": "const f = (k) => ({ get v() { return k === 0 ? 0 : 1 + f(k - 1).v } }); return f(n).v",
    "proxies": "let p = { v: 7 }; for (let i = 0; i < n; i++) p = new Proxy(p, { get: (t, k) => Reflect.get(t, k) }); return p.v - 7 + n",
    "bound": "let f = () => n; for (let i = 0; i < n; i++) Object.defineProperty(f = f.bind(null), 'name', { value: '' }); return f()",
    "tostring": "const f = (k) => ({ toString() { return k === 0 ? '' : 'x' + f(k - 1) } }); return String(f(n)).length",
    "parse": "let v = JSON.parse('['.repeat(n) + ']'.repeat(n)), d = 0; while (v !== undefined) { d++; v = v[0] } return d",
    "stringify": "let v = []; for (let i = 1; i < n; i++) v = [v]; return JSON.stringify(v).length / 2",
    "objects": "let v = {}; for (let i = 1; i < n; i++) v = { v }; return JSON.stringify(v).split('{').length - 1",
    "literals": "return eval('['.repeat(n) + ']'.repeat(n)).flat(Infinity).length + n",
    "parentheses": "return eval('('.repeat(n) + n + ')'.repeat(n))",
    "regex": "return new RegExp('(?:'.repeat(n) + 'a' + ')'.repeat(n)).test('a') ? n : -1",
    "backtracking": "return /^(?:a|b)*$/.test('ab'.repeat(n)) ? n : -1",
    "generators": "function* g(k) { if (k > 0) { yield 1; yield* g(k - 1) } } let s = 0; for (const x of g(n)) s += x; return s",
    "async": "const f = async (k) => (k === 0 ? 0 : 1 + await f(k - 1)); return await f(n)",
    "apply": "const f = (k) => (k === 0 ? 0 : 1 + Reflect.apply(f, null, [k - 1])); return f(n)",
    "constructors": "class A { constructor(k) { this.d = k === 0 ? 0 : 1 + new A(k - 1).d } } return new A(n).d",
    "spread": "const f = (...a) => (a[0] === 0 ? 0 : 1 + f(...[a[0] - 1])); return f(n)",
}
FLOORS = {
    100: "sort proxies bound parentheses regex generators",
    150: "reduce map replace tostring literals apply spread",
    200: "constructors",
    300: "getters async",
    500: "calls methods",
    1000: "parse stringify objects backtracking",
}
FLOOR = {walk: floor for floor, walks in FLOORS.items() for walk in walks.split()}
"""Depths that must work."""


def depths(top: int = 20_000) -> list[int]:
    """Dense where the old overwriting began (about 75), then ever wider steps."""
    steps, depth = list(range(1, 160, 13)), 160.0
    while depth < top:
        steps.append(int(depth))
        depth *= 1.35
    return steps


async def right_at(run: Runner, walk: str, depth: int) -> bool:
    """Whether the walk gives its right result; a StackError is the only other end it may have."""
    end = await run(f"const n = {depth}; {walk}")
    if isinstance(end, Done):
        assert end.text == str(depth), f"{walk} at depth {depth}"
        return True
    assert isinstance(end, Failed)
    assert (end.error.name, end.error.limit) == ("StackError", "limit.stack"), (walk, depth, end.error)
    return False


@pytest.mark.long
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("place", ["sandbox", "small_process"])
async def test_every_depth_gives_the_right_result_or_a_stack_error(request, walk, place):
    floor, code, run = FLOOR[walk], WALKS[walk], Runner(request.getfixturevalue(place))
    deepest, lowest_full = 0, 0
    for depth in sorted({*depths(), floor}):
        if await right_at(run, code, depth):
            deepest = max(deepest, depth)
        else:
            assert depth > floor, f"{walk} must reach {floor}"
            lowest_full = lowest_full or depth
    assert deepest >= floor
    if lowest_full:
        assert deepest < lowest_full, f"{walk} overflowed at {lowest_full} and not at {deepest}"
        await every_depth_about_the_end(run, code, deepest, lowest_full)


async def test_recursion_works_to_the_documented_depth(run):
    for walk, code in WALKS.items():
        assert await right_at(run, code, FLOOR[walk])


async def every_depth_about_the_end(run: Runner, walk: str, right: int, full: int) -> None:
    """Where the last frame that fits is followed by the first that does not: what is overwritten would be seen here."""
    while full - right > 1:
        middle = (right + full) // 2
        if await right_at(run, walk, middle):
            right = middle
        else:
            full = middle
    for depth in range(max(1, right - 4), full + 5):
        assert await right_at(run, walk, depth) is (depth <= right), f"{walk} at depth {depth}"


# Frames of thousands of operands, variables, parameters or bound arguments; LEAF uses tables and heap all over the guest.
LEAF = r"""(() => "e\u0301".normalize("NFC") + "stra\u00dfe".toUpperCase() + "aXb".replace(/x/i, (m) => m + "y")
    + JSON.stringify({ a: [3, 1, 2].sort() }) === '\u00e9STRASSEaXyb{"a":[1,2,3]}' ? n : "wrong")"""
WIDE = {
    "operands": """
        const f = eval("(function f(k, g) { if (k < 0) return Math.max(" + "0,".repeat(WIDTH - 1) + "0); return k ? f(k - 1, g) : g() })");
        return f(n, LEAF)""",
    "variables": """
        const names = Array.from({ length: WIDTH }, (_, i) => "v" + i).join();
        const f = eval("(function f(k, g) { var " + names + "; return k ? f(k - 1, g) : g() })");
        return f(n, LEAF)""",
    "parameters": """
        const names = Array.from({ length: WIDTH }, (_, i) => "p" + i).join();
        const f = eval("(function f(k, g, " + names + ") { return k ? f(k - 1, g) : g() })");
        return f(n, LEAF)""",
    "bound arguments": """
        const many = new Array(WIDTH).fill(0);
        const f = (k) => (k ? f.bind(null, k - 1, ...many)(...many) : LEAF());
        return f(n)""",
    "a leaf that calls nothing": """
        const names = (c) => Array.from({ length: WIDTH }, (_, i) => c + i).join();
        const leaf = eval("(function (" + names("p") + ") { var " + names("v") + "; return 1 })");
        const f = eval("(function f(k, g) { var " + names("v") + "; return k ? f(k - 1, g) : g() })");
        return f(n, () => leaf() + LEAF() - 1)""",
}


SLOW_TO_COMPILE = {"parameters", "a leaf that calls nothing"}
"""The engine compares each parameter with all others."""


@pytest.mark.parametrize(("frame", "width"), [(frame, 2_000) for frame in WIDE] + [("operands", 65_000)])
async def test_wide_frames_about_the_end_of_the_stack_change_no_data(run, frame, width):
    await wide_frames_about_the_end(run, frame, width)


@pytest.mark.long
@pytest.mark.parametrize("frame", WIDE)
async def test_frames_of_many_widths_about_the_end_of_the_stack_change_no_data(run, frame):
    slow = frame in SLOW_TO_COMPILE
    for width in range(1_000, 8_000, 907) if slow else (*range(1_000, 20_000, 907), 65_000):
        await wide_frames_about_the_end(run, frame, width)


async def wide_frames_about_the_end(run: Runner, frame: str, width: int) -> None:
    code = WIDE[frame].replace("LEAF", LEAF).replace("WIDTH", str(width))
    await every_depth_about_the_end(run, code, right=1, full=1_000)
