"""What the console writes: formats as elsewhere, errors that are odd, and nothing that ends the chain."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("logged", "line"),
    [
        ('"%s is %d", "a", 5, { a: 1 }', "a is 5 { a: 1 }"),
        ('"%d%% of %i", "12.5", "7px"', "12.5% of 7"),
        ('"%f %d %d", "1.5kg", {}, 10n', "1.5 NaN 10n"),
        ('"%o %O %j", { a: 1 }, [1], "x"', "{ a: 1 } [ 1 ] x"),
        ('"%cred%c", "color: red", ""', "red"),
        ('"%s %s %s", "a", null', "a null %s"),
        ('"%z stays, %s goes", 1', "%z stays, 1 goes"),
        ('"100%"', "100%"),
        ('"50%", 3', "50% 3"),
        ('"%s"', "%s"),
        ('"a", "%s", 1', "a %s 1"),
        ('{ a: "%s" }, 1', '{ a: "%s" } 1'),
        ('"%s", { toString() { throw new Error("no") } }', "{ toString: [Function toString] }"),
    ],
)
async def test_a_first_text_with_placeholders_is_filled_in(run, logged, line):
    end = await run(f"console.log({logged}); return 1")
    assert end.console.lines == [line]


@pytest.mark.parametrize(
    ("make", "line"),
    [
        ("e.name = e", "[Circular]: x"),
        ("e.message = { a: 1 }", "Error: { a: 1 }"),
        ("e.name = undefined", ": x"),
        ("e.name = new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 } })", "[Throws: 2]: x"),
    ],
)
async def test_an_error_whose_name_or_message_is_no_text_is_shown(run, make, line):
    end = await run(f'const e = new Error("x"); {make}; console.log(e); return 1')
    assert end.console.lines == [line]
    assert end.text == "1"


async def test_a_long_text_of_placeholders_is_cut_like_any_other(run):
    end = await run('console.log("%s".repeat(1e5), ...Array(1e4).fill("yy")); return 1')
    assert len(end.console.lines[0]) == 2001
