"""What odd processes write, seen from a caller: the answer arrives, or this one call fails and no other."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendProtocol, BackendStopped
from gatemini.processes import throttle
from gatemini.processes.pipes import STDERR, STDOUT, ChildPipes

pytestmark = pytest.mark.anyio


async def test_junk_around_an_answer_is_counted_and_harms_nothing(bench: Bench) -> None:
    await bench.odd()
    assert await bench.value("flood", {"times": 500}) == "done"
    status = bench.manager.status("odd")
    assert status.skipped_lines == 1000
    assert status.stray_replies == 500


async def test_endless_output_of_a_child_is_throttled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsolicited output takes a share of the loop's time at most; an answer after it still arrives."""
    rests: list[int] = []
    rested = ChildPipes._rested

    def noted(child: ChildPipes, fd: int) -> None:
        rests.append(fd)
        rested(child, fd)

    monkeypatch.setattr(ChildPipes, "_rested", noted)
    monkeypatch.setattr(throttle, "IDLE_BURST_SECONDS", 0.0)
    monkeypatch.setattr(throttle, "MAX_REST_SECONDS", 0.01)
    await bench.odd()
    assert await bench.value("flood", {"times": 3000}, timeout=TEST_SECONDS) == "done"
    assert set(rests) == {STDOUT}
    assert bench.manager.status("odd").skipped_lines == 6000
    rests.clear()
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    assert rests == [], "an answer is paid for by who asked"
    assert await bench.value("stderr", {"lines": 4000, "width": 90}) is None
    await bench.until_true(lambda: "line 3999" in "".join(bench.manager.status("odd").stderr_tail[-1:]))
    assert set(rests) == {STDERR}


async def test_of_a_stderr_line_without_end_the_beginning_is_kept_and_the_cut_marked(bench: Bench) -> None:
    await bench.odd()
    await bench.value("stderr", {"lines": 1, "width": 300_000})
    await bench.until_true(lambda: bench.manager.status("odd").stderr_tail != [])
    (line,) = bench.manager.status("odd").stderr_tail
    assert line.startswith("line 0 e")
    assert line.endswith("e...")
    assert len(line) == 2000


async def test_the_last_output_of_a_child_that_wrote_too_much_is_read_when_it_exits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(throttle, "IDLE_BURST_SECONDS", 0.0)
    monkeypatch.setattr(throttle, "MIN_REST_SECONDS", 5.0)
    monkeypatch.setattr(throttle, "MAX_REST_SECONDS", 5.0)
    await bench.odd()
    strays = '{"jsonrpc":"2.0","id":99999,"result":{}}\n' * 2500
    outcome = await bench.call(
        "raw", {"text": strays + LARGE_ANSWER.replace("x" * 400_000, "x"), "exit": True}
    )
    assert outcome.result["content"][0]["text"] == "x"
    assert not [record for record in caplog.records if record.exc_info]


async def test_requests_of_a_backend_that_is_being_stopped_are_no_fault(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    asks = '{"jsonrpc":"2.0","id":7,"method":"roots/list"}'
    config = {"name": "yes", "command": "yes", "args": [asks], "connect_timeout": 0.5}
    bench.manager.add(BackendConfig.model_validate({**config, "shutdown_grace_period": 0.5}))
    with pytest.raises(BackendStopped, match="connect_timeout"):
        await bench.call("echo", name="yes", timeout=TEST_SECONDS)
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_program_that_writes_without_end_is_named_and_ended(bench: Bench) -> None:
    config = {"name": "yes", "command": "yes", "connect_timeout": 1.0, "shutdown_grace_period": 0.5}
    bench.manager.add(BackendConfig.model_validate(config))
    with pytest.raises(BackendStopped, match="connect_timeout"):
        await bench.call("echo", name="yes", timeout=TEST_SECONDS)
    assert bench.manager.status("yes").skipped_lines > 0


@pytest.mark.parametrize(
    ("text", "arrived"),
    [
        (r'"\ud800"', "\ufffd"),
        ('"caf\xe9"', "caf\ufffd"),
        ("9007199254740993", "9007199254740993"),
        ("NaN", None),
    ],
)
async def test_invalid_text_and_numbers_are_repaired_with_a_note(
    bench: Bench, text: str, arrived: Any
) -> None:
    await bench.odd()
    body = '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"v":' + text + "}}}\n"
    outcome = await bench.call("raw", {"text": body})
    assert outcome.result["structuredContent"]["v"] == arrived
    assert len(outcome.notes) == 1


async def test_an_error_without_an_id_fails_the_only_open_call(bench: Bench) -> None:
    await bench.odd()
    text = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"could not parse that"}}\n'
    with pytest.raises(BackendProtocol, match="could not parse that"):
        await bench.call("raw", {"text": text})


async def test_a_20_mb_line_arrives_whole(bench: Bench) -> None:
    await bench.odd()
    outcome = await bench.call("big", {"bytes": 20 << 20}, timeout=TEST_SECONDS)
    assert len(outcome.result["content"][0]["text"]) == 20 << 20


LARGE_ANSWER = (
    '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"' + "x" * 400_000 + '"}]}}\n'
)


async def test_a_large_answer_is_read_before_the_end_of_its_backend(bench: Bench) -> None:
    await bench.odd()
    outcome = await bench.call("raw", {"text": LARGE_ANSWER, "exit": True})
    assert len(outcome.result["content"][0]["text"]) == 400_000


async def test_large_and_small_answers_reach_their_own_calls(bench: Bench) -> None:
    await bench.odd()
    got: dict[int, int] = {}

    async def one(size: int) -> None:
        outcome = await bench.call("big", {"bytes": size}, timeout=TEST_SECONDS)
        got[size] = len(outcome.result["content"][0]["text"])

    sizes = [400_000 + n if n % 2 else 100 + n for n in range(20)]
    async with anyio.create_task_group() as tasks:
        for size in sizes:
            tasks.start_soon(one, size)
    assert got == {size: size for size in sizes}


async def test_a_large_line_that_is_no_message_is_skipped(bench: Bench) -> None:
    await bench.odd()
    await bench.call("raw", {"text": "z" * 400_000 + "\n" + LARGE_ANSWER})
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
