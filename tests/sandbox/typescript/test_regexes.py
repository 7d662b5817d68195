"""Regular expressions that the engine gets wrong are refused by name before anything runs; the others pass."""

from __future__ import annotations

import pytest

from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("const a = 1;\nreturn /[[a-z][0-9]]/v.test('a')", "a class in a class under the flag v"),
        ("\nreturn /[\\p{L}&&\\p{Lu}]/v.test('a')", "\\p{L} under the flag v"),
        ("\nreturn /[a-z&&b]/v.test('a')", "&& under the flag v"),
        ("\nreturn /[\\w--\\d]/v.test('a')", "-- under the flag v"),
        ("\nreturn /^\\p{Lu}+$/v.test('ÄÖ')", "\\p{Lu} under the flag v"),
        ("\nreturn /[\\q{abc|d}]/gv.test('abc')", "\\q{ under the flag v"),
        ("\nreturn /^.$/v.test('😀')", ". under the flag v"),
        ("\nreturn /[^a]/v.test('a')", "[^ under the flag v"),
        ("\nreturn /\\S/v.test('a')", "\\S under the flag v"),
        ("\nreturn /\\u{61}/v.test('a')", "\\u{…} under the flag v"),
        ("\nreturn /[😀]/v.test('a')", "😀 under the flag v"),
        ("\nreturn new RegExp('^\\\\p{Lu}', 'v').test('A')", "\\p{Lu} under the flag v"),
        ("\nreturn RegExp(String.raw`[a--b]`, `gv`).test('A')", "-- under the flag v"),
        ("\nreturn /\\p{Lu}/iu.test('a')", "\\p{Lu} under the flags i and u"),
        ("\nreturn /x\\P{Lowercase}/giu.test('a')", "\\P{Lowercase} under the flags i and u"),
        ("\nreturn 'ask'.replace(/[\\W_]+/giu, '-')", "\\W in a class under the flags i and u"),
        ("\nreturn new RegExp(\"[\\\\W_]+\", \"iu\").test('k')", "\\W in a class under the flags i and u"),
    ],
)  # fmt: skip
def test_what_the_engine_matches_wrongly_is_refused_with_its_place(code: str, named: str) -> None:
    with pytest.raises(SandboxSyntaxError) as refused:
        prepare(code)
    assert refused.value.message == f"this sandbox's engine does not match {named} as ECMAScript says"
    assert refused.value.line == 2
    assert refused.value.hint


@pytest.mark.parametrize(
    "code",
    [
        "return /^[a-z]+-\\d+$/v.test('a-1')",
        "return /a|b/gv.test('a') && /[\\w\\-]+/v.test('a')",
        "return /\\p{Lu}/u.test('A') && /^[\\p{L}\\p{N}]+$/iu.test('a') && /[\\p{Lu}]/iu.test('a')",
        "return /\\p{L}+/iu.test('a') && /[^\\w]/iu.test('-') && /\\W/iu.test('-')",
        "return /[[a-z]/.test('[') && /[&&]/u.test('&') && /./su.test('a')",
        "const p = '[a-z]'; return new RegExp(p, 'v').test('a') || new RegExp('[[a]]', 'u')",
        "const v = 2; const x = 8 /v; return x + ' a/v '; // [[a]]/v",
        "return `/[[a]]/v` + '/\\\\p{L}/v'",
    ],
)
def test_what_it_matches_rightly_passes(code: str) -> None:
    assert prepare(code).js
