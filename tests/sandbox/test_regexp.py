"""Regular expressions made at run time: what the engine gets wrong is refused, the rest is as ECMAScript says."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("[[a-z][0-9]]", "v"),
        (r"[\p{L}&&\p{Lu}]", "v"),
        ("a.c", "gv"),
        ("[a-z]", "iv"),
        (r"^\p{Lu}", "iu"),
        (r"[\W_]", "iu"),
    ],
)
async def test_what_the_engine_matches_wrongly_is_refused_by_name(run, pattern: str, flags: str) -> None:
    code = f"""const flags = "{flags}", pattern = String.raw`{pattern}`;
        try {{ new RegExp(pattern, flags); return "made" }} catch (e) {{ return [e.name, e.message.includes("does not match /" + pattern)] }}"""
    assert await run.value(code) == ["SyntaxError", True]


async def test_other_expressions_are_made_and_are_regular_expressions(run) -> None:
    code = r"""const v = "v", u = "giu", x = /a/;
        class Own extends RegExp { hi() { return 1 } }
        return [
          new RegExp("[a-z]+\\.", v).test("abc."), "Ä".replace(new RegExp("\\p{L}", u), "x"), new RegExp("[\\p{Lu}]", u).test("ä"),
          x.constructor === RegExp, RegExp(x) === x, RegExp("a", "g").flags, RegExp.name, RegExp.length,
          new Own("a").hi(), new Own("a") instanceof RegExp, "a-b".split(RegExp("-")).length,
        ]"""
    assert await run.value(code) == [True, "x", True, True, True, "g", "RegExp", 2, 1, True, 2]
