"""For an undefined result, only expressions that can have produced it are named."""

from __future__ import annotations

import pytest

from gatemini_sandbox.typescript.prepare import prepare


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("const r: any = {};\nreturn r.x;", ["r.x"]),
        ("const r: any = {};\nif (r) return 1;\nreturn r.x as string;", ["r.x as string"]),
        ("function main() { if (a) return f(); return g(); }\nmain();", ["f()", "g()"]),
        ("try { return r.x } finally { }", ["r.x"]),
        ("const x = 1;\nif (x > 1) { return 'yes' }", []),
        ("if (x > 1) { return x.y }", []),
        ("for (const a of b) return a.c;", []),
        ("return `a`;", []),
        ("async function main() { return 19 }\nvoid main();", ["void main()"]),
        ("async function main() { return r.x }\nmain();", ["r.x"]),
        ("return", [""]),
    ],
)
def test_an_expression_is_named_only_if_it_may_have_given_undefined(code, named):
    assert [text for _, _, text in prepare(code).returned()] == named
