"""A JSON-RPC error tells its reason in whatever form it comes."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.backends.conversation.rpc_errors import SHOWN_CHARS, error_code, error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"code": -32603, "message": "gone"}, "gone"),
        ({"message": "Internal error", "data": "db is locked"}, "Internal error: db is locked"),
        ({"message": "Invalid", "data": {"field": "q"}}, 'Invalid: {"field":"q"}'),
        ({"message": "Invalid", "data": [{"path": ["q"]}]}, 'Invalid: [{"path":["q"]}]'),
        ({"message": "bad: q", "data": "q"}, "bad: q"),
        ({"message": "Invalid", "data": {}}, "Invalid"),
        ({"message": "", "data": {"details": "why"}}, '{"details":"why"}'),
        ({"message": {"reason": "why"}}, '{"reason":"why"}'),
        ({"message": ["a", "b"]}, '["a","b"]'),
        ({"detail": "unauthorized", "status": 401}, '{"detail":"unauthorized","status":401}'),
        ({"detail": "unauthorized"}, "unauthorized"),
        ({"message": 5}, "5"),
        ({"code": -32000}, "an error without a message"),
        ({}, "an error without a message"),
        ({"message": "visit", "data": {"elicitations": [{"url": "https://x"}]}}, "visit"),
    ],
)
def test_the_text_is_the_message_with_the_data_that_says_more(error: dict[str, Any], text: str) -> None:
    assert error_text(error) == text


def test_long_data_is_shortened() -> None:
    text = error_text({"message": "failed", "data": {"stack": "at x " * 5000}})
    assert text.startswith('failed: {"stack":"at x ')
    assert len(text) <= len("failed: ") + SHOWN_CHARS


@pytest.mark.parametrize(
    ("written", "code"),
    [(-32602, -32602), (-32602.0, -32602), ("-32602", -32602), ("E_AUTH", "E_AUTH")]
    + [(odd, None) for odd in (None, "", True, 1.5, [], {})],
)
def test_codes_of_any_form_are_read(written: object, code: int | str | None) -> None:
    assert error_code(written) == code
