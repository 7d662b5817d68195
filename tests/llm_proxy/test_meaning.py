"""The tools whose vectors the proxy holds."""

from __future__ import annotations

import pytest

from gatemini.llm_proxy import meaning
from gatemini.model import Tool


def test_a_request_with_more_tools_than_are_held_has_all_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "MOST_TOOLS", 2)
    held = meaning._Tools()
    three, other = [Tool("request", name, "", {}) for name in "abc"], Tool("request", "d", "", {})
    assert held.slots(three) == ([0, 1, 2], True)
    assert held.slots(three) == ([0, 1, 2], False)
    assert held.slots([None, other]) == ([None, 0], True)
