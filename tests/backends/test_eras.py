"""Both handshakes, and servers that make it hard to tell which one they speak."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench, odd_config
from gatemini.backends.conversation import handshake
from gatemini.backends.status import Era, State
from gatemini.errors import BackendStopped

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROBE_SILENCE_SECONDS", 0.2)


CASES: list[tuple[dict[str, Any], str, Era | None]] = [
    ({"on_discover": "error"}, "legacy", None),
    ({"on_discover": "error"}, "legacy", "modern"),
    ({"on_discover": "error"}, "legacy", "legacy"),
    ({"on_discover": "modern", "on_initialize": "error"}, "modern", None),
    ({"on_discover": "modern", "on_initialize": "error"}, "modern", "legacy"),
    ({"on_discover": "silent"}, "legacy", None),
    ({"on_discover": "exit"}, "legacy", None),
    ({"on_discover": "exit"}, "legacy", "modern"),
    ({"on_discover": "empty"}, "legacy", None),
    ({"on_discover": "modern", "on_initialize": "error", "delay": 0.3}, "modern", None),
    ({"on_discover": "error", "delay": 0.3}, "legacy", None),
    ({"on_discover": "retry", "on_initialize": "exit"}, "modern", None),
    ({"on_discover": "retry", "on_initialize": "error"}, "modern", "legacy"),
    ({"on_discover": ["2025-11-25", "1.0"], "on_initialize": "answer"}, "legacy", None),
]


@pytest.mark.parametrize(("options", "era", "known"), CASES)
async def test_the_era_is_found_with_any_earlier_result(
    bench: Bench, options: dict[str, Any], era: str, known: Era | None
) -> None:
    bench.manager.add(odd_config(options=options), era=known)
    await bench.manager.wait_ready("odd", 60)
    status = bench.manager.status("odd")
    assert status.era == era
    assert status.server_info == {"name": "odd", "version": "1"}
    assert status.protocol_version == ("2026-07-28" if era == "modern" else "2025-11-25")
    assert await bench.value("echo", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize(("how", "version"), [("named", "2025-03-26"), ("unnamed", "2024-11-05")])
async def test_a_server_that_refuses_later_revisions_is_offered_earlier_ones(
    bench: Bench, how: str, version: str
) -> None:
    await bench.odd(options={"on_initialize": how})
    assert bench.manager.status("odd").protocol_version == version
    assert await bench.value("echo", {"n": 1}) == {"n": 1}


async def test_a_server_that_refuses_discovery_is_asked_in_a_revision_that_it_names(bench: Bench) -> None:
    await bench.odd(options={"on_discover": ["2025-03-26", "2024-11-05"], "on_initialize": "strict"})
    assert bench.manager.status("odd").protocol_version == "2025-03-26"
    assert bench.manager.status("odd").restarts == 0


@pytest.mark.parametrize("how", ["exit", "silent"])
async def test_the_era_is_probed_again_after_a_failed_start(bench: Bench, how: str) -> None:
    """The server was another one when it was remembered: today it does not answer the old handshake."""
    options = {"on_discover": "modern", "on_initialize": how}
    seconds = 60.0 if how == "exit" else 3.0  # the second start may take as long, too
    bench.manager.add(odd_config(options=options, connect_timeout=seconds), era="legacy")
    await bench.until(lambda: bench.manager.state("odd") is State.HEALTHY)
    assert bench.eras == {"odd": "modern"}
    assert bench.manager.status("odd").restarts == 1


async def test_only_an_answered_handshake_reports_an_era(bench: Bench) -> None:
    bench.manager.add(odd_config(options={"on_discover": "exit", "on_initialize": "exit"}))
    with pytest.raises(BackendStopped):
        await bench.manager.wait_ready("odd", 60)
    assert bench.eras == {}
    await bench.odd("fine", options={"on_discover": "modern"})
    assert bench.eras == {"fine": "modern"}


async def test_a_slow_starter_is_not_started_twice(bench: Bench) -> None:
    await bench.odd(options={"delay": 0.5})
    status = bench.manager.status("odd")
    assert status.restarts == 0
    assert await bench.value("pid") == status.pid


async def test_a_backend_that_never_answers_is_stopped_with_its_limit_named(bench: Bench) -> None:
    bench.manager.add(
        odd_config(options={"on_discover": "silent", "on_initialize": "silent"}, connect_timeout="600ms")
    )
    with pytest.raises(BackendStopped, match=r"did not get ready within 0\.6 s"):
        await bench.manager.wait_ready("odd", 60)


async def test_the_stateless_revision_carries_its_envelope_in_every_request(bench: Bench) -> None:
    await bench.odd(options={"on_discover": "modern"})
    token = await bench.manager.call_tool(
        "odd", "progress", {"steps": 0}, timeout=TEST_SECONDS, on_progress=lambda *_: None
    )
    assert token.result["content"][0]["text"].isdigit(), "the progress token travels beside the envelope"
