"""Every limit of the table in docs/security.md: its own error code, in both isolation modes, after a hot reload.

Each row runs the same code twice in one gateway: under the first configuration, and once a changed file is in force.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.direct import write_config
from fixtures.modes import MODES
from fixtures.running import DEMO, answer, running_app
from gatemini.app import App
from gatemini.config.model.schema import SandboxConfig
from gatemini.errors import OUT_OF_TIME
from gatemini_sandbox.limits import Limits

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
WAIT_SECONDS = 60.0
NO_LIMITS = {"isolation", "processes", "guests_per_process", "max_output_size", "output"}
"""Keys of `sandbox` that are none: where guests run, and how answers are reduced."""


@dataclass(frozen=True)
class Row:
    """One limit: the keys that set it, what a chain over it gets, and code that is within it at first only."""

    keys: tuple[str, ...]
    after: dict[str, Any]
    code: str
    says: str
    """What the answer says under the changed limit; its value among it."""
    codes: tuple[str, ...] = ()
    before: dict[str, Any] = field(default_factory=dict)


FIVE_CALLS = "for (let i = 0; i < 5; i++) await demo.echo({ i }); return 'within'"
TWO_BYTES = "const s = 'x'.repeat(5000); "
ROWS = {
    "wall time": Row(
        ("timeout",),
        {"timeout": "150ms"},
        "await sleep(400); return 'within'",
        "ChainTimeout: the chain did not end within its timeout of 150 ms (limit.time)",
        ("limit.time",),
    ),
    "CPU time": Row(
        ("cpu_seconds",),
        {"cpu_seconds": 0.05},
        "for (let i = 0; i < 1e7; i++); return 'within'",
        "TimeoutError: the code used more than 0.05 s of CPU time (limit.cpu)",
        ("limit.cpu",),
    ),
    "memory": Row(
        ("memory_mb",),
        {"memory_mb": 32},
        "const held = new Uint8Array(60e6); return 'within'",
        "the code may use 32 MiB (limit.memory)",
        ("limit.memory",),
    ),
    "memory of all guests": Row(
        ("total_memory_mb",),
        {"total_memory_mb": 48},
        "const held = new Uint8Array(90e6).fill(1); const until = Date.now() + 100;\n"
        "while (Date.now() < until); await demo.echo({}); return 'within'",
        "all running chains together use more than 48 MiB, this one the most of it (limit.total_memory)",
        ("limit.total_memory",),
    ),
    "nesting": Row(
        ("max_depth",),
        {"max_depth": 20},
        "let x = 1; for (let i = 0; i < 40; i++) x = [x]; await demo.echo({ x }); return 'within'",
        "LimitError: the arguments of demo.echo are nested deeper than 20 levels (limit.depth)",
        ("limit.depth",),
    ),
    "code size": Row(
        ("max_code_bytes",),
        {"max_code_bytes": 1024},
        f"// {'x' * 2000}\nreturn 'within'",
        "more than the limit of 1,024 (limit.code: sandbox.max_code_bytes)",
        ("limit.code",),
    ),
    "calls": Row(
        ("max_calls",),
        {"max_calls": 3},
        FIVE_CALLS,
        "LimitError: a chain may make 3 calls; demo.echo was one more (limit.calls)",
        ("limit.calls",),
    ),
    "calls in flight": Row(
        ("max_calls_in_flight",),
        {"max_calls_in_flight": 3},
        # Long enough that all which may run at once do, also where the machine is busy.
        "await Promise.all(Array.from({ length: 4 }, () => demo.sleep({ ms: 700, tag: 't' })));\n"
        "return (await demo.stats({})).most_running === 2 ? 'within' : (await demo.stats({})).most_running",
        "3",
        before={"max_calls_in_flight": 2},
    ),
    "argument bytes": Row(
        ("max_argument_bytes",),
        {"max_argument_bytes": 2000},
        TWO_BYTES + "await demo.echo({ s }); return 'within'",
        "LimitError: the arguments of demo.echo are larger than 2000 bytes (limit.arguments)",
        ("limit.arguments",),
    ),
    "result bytes": Row(
        ("max_result_bytes",),
        {"max_result_bytes": 3000},
        "await demo.rows({ n: 500 }); return 'within'",
        "code takes 3000 at a time (limit.result: sandbox.max_result_bytes); all of it is kept as res_",
        ("limit.result",),
    ),
    "returned value": Row(
        ("max_value_bytes",),
        {"max_value_bytes": 1024},
        TWO_BYTES + "return `within${s}`",
        "LimitError: the returned value is larger than 1024 bytes (limit.value)",
        ("limit.value",),
    ),
    "console": Row(
        ("max_console_bytes", "max_console_line"),
        {"max_console_bytes": 256, "max_console_line": 20},
        "console.log('y'.repeat(50)); for (let i = 0; i < 60; i++) console.log(i, 'z'.repeat(6)); return 'within'",
        "yyyyyyyyyyyyyyyyyyyy…",
    ),
    "running guests": Row(
        ("max_concurrent_sandboxes",),
        {"max_concurrent_sandboxes": 1},
        "return 'within'",
        "for other chains to make room (limit.guests: sandbox.max_concurrent_sandboxes)",
        ("limit.guests",),
    ),
}


async def until(holds: Callable[[], bool]) -> None:
    """The watcher lives in the kernel's time: there is no event of ours to wait for."""
    with anyio.fail_after(WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def run(app: App, name: str, code: str, **more: Any) -> tuple[str, bool]:
    """The answer; the row of running guests has others beside it that compute until they are cancelled."""
    if name != "running guests":
        return (await answer(app, code))[:2]
    async with anyio.create_task_group() as others:
        for _ in range(2):
            others.start_soon(answer, app, "for (;;) {}")
        await anyio.wait_all_tasks_blocked()
        text, failed, _ = await answer(app, code, **more)
        others.cancel_scope.cancel()
    return text, failed


@pytest.mark.long
@pytest.mark.parametrize("isolation", MODES)
@pytest.mark.parametrize("name", ROWS)
async def test_a_limit_follows_a_reload_and_names_itself_and_its_value(
    tmp_path: Path, name: str, isolation: str
) -> None:
    row = ROWS[name]
    async with running_app(tmp_path, sandbox={"isolation": isolation, **row.before}) as app:
        text, failed = await run(app, name, row.code)
        assert text.startswith("within"), text
        assert not failed
        write_config(tmp_path, DEMO, sandbox={"isolation": isolation, **row.after})
        config = SandboxConfig.model_validate(row.after)
        await until(lambda: all(getattr(app.chain.config, k) == getattr(config, k) for k in row.keys))
        text, failed = await run(
            app, name, row.code, **({"timeout": 400} if name == "running guests" else {})
        )
    if name == "console":
        assert "lines dropped" in text
    assert row.says in text
    assert failed is bool(row.codes)


def table() -> dict[tuple[str, ...], tuple[set[str], str]]:
    """Keys of a row of the page → the codes it names, and what it says that is not covered."""
    text = PAGE.read_text().split("What each limit of the sandbox leaves open:")[1]
    rows: dict[tuple[str, ...], tuple[set[str], str]] = {}
    for line in re.findall(r"^\| (.+) \|$", text.partition("\n## ")[0], re.M)[1:]:
        limit, errors, rest = line.split(" | ")
        rows[tuple(re.findall(r"`(\w+)`", limit))] = set(re.findall(r"`(limit\.\w+)`", errors)), rest
    return rows


def test_the_page_has_a_row_for_each_limit_with_its_codes_and_what_it_does_not_cover() -> None:
    page = table()
    assert {keys: codes for keys, (codes, _) in page.items() if keys} == {
        row.keys: set(row.codes) for row in ROWS.values()
    }
    assert all(len(rest) > 20 for _, rest in page.values())
    assert page[()][0] == {"limit.stack"}  # the one that is not configurable


def test_each_key_of_the_sandbox_is_a_limit_of_the_table_and_each_limit_has_a_key() -> None:
    told = {key for row in ROWS.values() for key in row.keys}
    assert told == set(SandboxConfig.model_fields) - NO_LIMITS
    codes = [code for row in ROWS.values() for code in row.codes]
    assert len(codes) == len(set(codes))  # each its own
    assert set(OUT_OF_TIME) <= set(codes)


ENDS = {
    "limit.time": "await sleep(60000)",
    "limit.cpu": "for (;;) {}",
    "limit.memory": "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))",
    "limit.stack": "const f = (n) => f(n + 1) + 1; f(0)",
    "limit.calls": "for (;;) await demo.add({ a: 1, b: 1 })",
    "limit.value": "return 'x'.repeat(5000)",
}


@pytest.mark.parametrize("isolation", MODES)
@pytest.mark.parametrize("code", ENDS)
async def test_a_limit_cancels_open_calls_and_tells_the_console_and_what_was_done(
    tmp_path: Path, code: str, isolation: str
) -> None:
    limits = {
        "isolation": isolation,
        "cpu_seconds": 0.2,
        "memory_mb": 48,
        "max_calls": 8,
        "max_value_bytes": 1024,
        "timeout": "1500ms" if code == "limit.time" else "20s",
    }
    source = (
        "console.log('said before');\nawait demo.write({ key: 'k', value: 1 });\n"
        f"const open = demo.sleep({{ ms: 60000, tag: 'open' }});\nawait sleep(1);\n{ENDS[code]};"
    )
    async with running_app(tmp_path, sandbox=limits) as app:
        text, failed, _ = await answer(app, source)
        assert failed
        assert f"({code})" in text.splitlines()[0]
        assert "said before" in text
        assert "demo.write: ok" in text
        with anyio.fail_after(WAIT_SECONDS):
            while '"cancelled":1' not in (await answer(app, '{"tool": "demo.stats"}'))[0]:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)


def test_the_defaults_are_those_that_the_specification_names() -> None:
    kib, mib = 1 << 10, 1 << 20
    config, limits = SandboxConfig(), Limits()
    assert (config.timeout, config.cpu_seconds, config.memory_mb) == (30.0, 10.0, 256)
    assert (config.total_memory_mb, config.max_concurrent_sandboxes) == (1024, 8)
    assert (config.max_depth, config.max_code_bytes) == (1000, 256 * kib)
    assert (config.max_calls, config.max_calls_in_flight) == (1000, 32)
    assert (config.max_argument_bytes, config.max_result_bytes) == (4 * mib, 32 * mib)
    assert (config.max_value_bytes, config.max_console_bytes) == (32 * mib, 64 * kib)
    assert config.max_console_line == 2000
    assert (limits.cpu_seconds, limits.memory_mb, limits.depth) == (10.0, 256, 1000)
