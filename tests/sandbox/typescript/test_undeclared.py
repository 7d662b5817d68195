"""The backends that code uses are found without running it."""

import pytest

from gatemini_sandbox.typescript.undeclared import outside_calls


def calls(code: str) -> list[tuple[str, str, int]]:
    return [(call.name, call.member, call.line) for call in outside_calls(code)]


def test_calls_of_undeclared_names_are_found_with_their_lines() -> None:
    code = """const { sum } = await demo.add({ a: args.a });
return [demo["odd-name"]({ sum }), await files.read.raw({}), ...x.map((y) => exa.search({ y }))];"""
    assert calls(code) == [
        ("demo", "add", 1), ("demo", "odd-name", 2), ("files", "read", 2), ("x", "map", 2), ("exa", "search", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "const a = 1; a.b()",
        "let { x: a, ...c } = {}; a.b(); c.b()",
        "let [a = 1, { c }] = []; a.b(); c.b()",
        "function a() {} a.b()",
        "class a {} a.b()",
        "enum a { x } a.b()",
        "for (const a of []) a.b()",
        "try {} catch (a) { a.b() }",
        "((a, { c }, ...d) => { a.b(); c.b(); d.b(); })({})",
        "[].map(a => a.b())",
        "function f(a: string, c?: number) { a.b(); c.b() }",
        "a.b; typeof a; a[0](); a[x](); x(a); ({ a })",
    ],
)
def test_what_the_code_declares_or_does_not_call_is_not_found(code: str) -> None:
    assert calls(code) == []
