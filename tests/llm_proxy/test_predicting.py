"""Prediction of tools in the proxy: by search, by the request's own model, and what happens when it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.llm_clients import CLIENTS
from fixtures.llm_proxy import running_proxy
from fixtures.llm_upstream import Said, running_provider

TOOLS = ["send_mail", "book_flight", "play_song", "water_plants", "read"]
LLM = {"context": {"tools": {"predictor": "llm"}}}


ANSWERS: list[tuple[Said, set[str] | None]] = [
    (Said('["book_flight", "no_such_tool"]'), {"book_flight"}),
    (Said("[]"), set()),
    (Said("You will need book_flight."), None),
    (Said('{"tool": "book_flight"}'), None),
    (Said(status=429), None),
]
"""What the model answers, and the tools that are predicted; None where that is no prediction."""


@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)
def test_the_requests_own_model_predicts_and_every_failure_keeps_all_tools(
    client: Any, tmp_path: Path
) -> None:
    with running_provider() as provider, running_proxy(provider.url, tmp_path, config=LLM) as proxy:
        for number, (said, predicted) in enumerate(ANSWERS):
            provider.answers, provider.got = [said, Said("done")], []
            asking = client(proxy.address, f"session {number}")
            assert asking.stream(TOOLS, "off to Lisbon")[0] == "done"
            asked, sent = provider.got
            assert "book_flight" in str(asked.json)
            assert "off to Lisbon" in str(asked.json)
            assert "stream" not in asked.json
            kept = set(TOOLS) if predicted is None else {"read", "tool_search"} | predicted
            assert set(sent.tools) == kept
        assert proxy.stats()["tools"]["prediction_failures"] == 3


def test_stats_count_what_was_predicted_used_and_asked_for(tmp_path: Path) -> None:
    config = {"context": {"tools": {"limit": 1, "always_included": []}}, "semantic": {"model": "none"}}
    with running_provider() as provider, running_proxy(provider.url, tmp_path, config=config) as proxy:
        client = CLIENTS[0](proxy.address)
        provider.answers = [
            Said("", [("tool_search", {"tool_name": "play_song", "reason": "music"})]),
            Said("", [("play_song", {}), ("send_mail", {}), ("book_flight", {}), ("water_plants", {})]),
        ]
        client.ask(TOOLS, "water the plants, send a mail and book a flight")
        stats = proxy.stats()
        counted = stats["tools"]
    assert (counted["requests"], counted["predicted"], counted["used"]) == (1, 1, 4)
    assert (counted["precision"], counted["recall"]) == (1.0, 0.25)
    assert counted["fallbacks"] == [{"name": "play_song", "reason": "music", "success": True}]
    assert counted["fallback_rate"] == 1.0
    assert counted["warning"] is True
    assert counted["bytes_saved"] > 0
    assert stats["upstream_requests"] == 2


def test_a_callable_cannot_be_named_in_a_configuration(tmp_path: Path) -> None:
    config = {"context": {"tools": {"predictor": "callable"}}}
    with (
        pytest.raises(AssertionError, match=r"context\.tools\.predictor: found callable"),
        running_proxy("http://127.0.0.1:1", tmp_path, config=config),
    ):
        pass
