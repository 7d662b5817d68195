"""Every key of the configuration has a test which shows that the running gateway does something else with it changed.

A test names its keys by the mark `proves`, a row of a table by `row`; both are read from the source here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fixtures.config_keys import schema_keys

HERE = Path(__file__).parent


def proved(source: str) -> Iterator[str]:
    """The keys that a test file names as shown."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        words: list[ast.expr] = []
        if isinstance(called, ast.Attribute) and called.attr == "proves":
            words = node.args
        elif isinstance(called, ast.Name) and called.id == "row":
            words = node.args[:1]
        yield from (w.value for w in words if isinstance(w, ast.Constant) and isinstance(w.value, str))


FILES = [path for folder in ("keys", "daemon", "http") for path in (HERE.parent / folder).rglob("test_*.py")]
PROVED = frozenset(key for path in sorted(FILES) for key in proved(path.read_text()))


def test_each_key_of_the_schema_is_named_by_a_test_that_shows_its_effect() -> None:
    assert sorted(set(schema_keys()) - PROVED) == [], (
        f"write a test in {HERE.name}/ and mark it with `proves`"
    )


def test_no_test_names_a_key_that_the_schema_does_not_have() -> None:
    assert sorted(PROVED - set(schema_keys())) == []
