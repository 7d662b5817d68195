"""Every key of the configuration has a test which shows that the running gateway does something else with it changed.

A test names its keys by the mark `proves`, a row of a table by `row`; both are read from the source here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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


PROVED = frozenset(key for path in sorted(HERE.glob("test_*.py")) for key in proved(path.read_text()))


@pytest.mark.parametrize("key", schema_keys())
def test_a_changed_value_of_each_key_is_shown_to_change_what_the_gateway_does(key: str) -> None:
    assert key in PROVED, f"no test in {HERE.name}/ shows what {key} does: write one and mark it with proves"


def test_nothing_is_shown_of_keys_that_do_not_exist() -> None:
    assert sorted(PROVED - set(schema_keys())) == []
