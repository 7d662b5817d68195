"""A chain interrupted at any call makes every write exactly once when resumed, or is refused and makes none.

So it is in the process that ran it, and in a later one that finds what a killed process had written.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.gate_server import STATE
from fixtures.running import running_app
from gatemini.app import App
from gatemini.chain.replay.stored_journals import StoredJournals
from gatemini.protocol.sessions.client_session import Session

GATE = {"gate": {"transport": "python", "module": "fixtures.gate_server:server"}}


@dataclass(frozen=True)
class Cut:
    """A program, and the calls at which its runs are cancelled: the first run, then each resumed one."""

    code: str
    writes: int
    at: tuple[int, ...]


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    names = iter(range(1_000))
    writes = 0

    def act() -> str:
        nonlocal writes
        kind = draw(st.sampled_from(["write", "write", "read", "put", "fail", "clock", "save"]))
        key = f"k{next(names)}"
        if kind in ("read", "put"):
            return f'gate.{kind}({{ tag: "open-{key}" }}).then((r) => r.tag)'
        if kind == "fail":
            return "gate.fail({}).catch((e) => e.message)"
        if kind == "save":
            return f"results.save([Math.random(), '{key}']).then((r) => r.handle)"
        writes += 1
        value = "Date.now() + Math.random()" if kind == "clock" else "log.length"
        return f'gate.write({{ key: "{key}", value: {value} }}).then((r) => typeof r.n)'

    def line() -> str:
        form = draw(st.sampled_from(["one", "all", "settled", "chained", "timer"]))
        if form == "one":
            return f"log.push(await {act()});"
        if form == "timer":
            return f"await sleep(1); log.push(await {act()});"
        if form == "chained":
            return f"log.push(...await Promise.all([{act()}.then(() => {act()}), {act()}]));"
        many = ", ".join(act() for _ in range(draw(st.integers(2, 4))))
        if form == "all":
            return f"log.push(...await Promise.all([{many}]));"
        return f"log.push(...(await Promise.allSettled([{many}])).map((s) => s.status));"

    lines = [line() for _ in range(draw(st.integers(1, 5)))]
    code = "\n".join(["const log = [];", *lines, "return log;"])
    at = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    return Cut(code, writes, tuple(at))


async def run_until(
    app: App, session: Any, code: str, at: int | None, on_cut: Callable[[], None]
) -> str | None:
    """Return the answer's text, or None when the run was cancelled at its `at`-th further call."""
    text: list[str] = []
    async with anyio.create_task_group() as tasks:
        already = len(STATE.calls)

        def cancel(count: int) -> None:
            if at is not None and count - already >= at and not tasks.cancel_scope.cancel_called:
                on_cut()
                tasks.cancel_scope.cancel()

        STATE.on_call = cancel
        result = await app.call_meta_tool("call_tool_chain", {"code": code}, session)
        text.append(result["content"][0]["text"])
    return text[0] if text else None


class SameProcess:
    """The session goes on where it was."""

    def __init__(self, app: App, _folder: Path) -> None:
        self.session: Session = app.new_session()

    def cut(self) -> None:
        """Do nothing: the journal is in memory."""

    def go_on(self) -> str:
        (ident,) = self.session.journals.kept
        return ident


class LaterProcess:
    """What the journal's files hold at the moment of the cut is all that the next session has."""

    def __init__(self, app: App, folder: Path) -> None:
        self._app, self._folder = app, folder
        self._live, self._left = folder / "live", folder / "left"
        shutil.rmtree(folder, ignore_errors=True)
        self._live.mkdir(parents=True)
        self.session = app.new_session()
        self.session.journals.new_file = StoredJournals(self._live, None).file

    def cut(self) -> None:
        shutil.copytree(self._live, self._left)

    def go_on(self) -> str:
        self.session.close()
        shutil.rmtree(self._live)
        self._left.rename(self._live)
        stored = StoredJournals(self._live, None)
        self.session = self._app.new_session()
        self.session.journals.new_file = stored.file
        ((journal, idle),) = stored.load()
        self.session.journals.take_back(journal, idle)
        return journal.id


async def check(app: App, cut: Cut, process: SameProcess | LaterProcess) -> str:
    STATE.clear()
    for number in range(100):
        STATE.open(f"open-k{number}")
    text = await run_until(app, process.session, cut.code, cut.at[0], process.cut)
    if text is not None:
        return "ended before the cut"
    for at in (*cut.at[1:], None):
        ident = process.go_on()
        done = list(STATE.written)
        code = f"// @resume {ident}\n{cut.code}"
        text = await run_until(app, process.session, code, at, process.cut)
        if text is not None and text.startswith("ResumeRefused"):
            assert "was sent and never answered" in text, (text, cut.code)
            assert STATE.written == done
            return "refused"
        if text is not None:
            break
    assert text is not None
    assert isinstance(json.loads(text), list), (text, cut.code)
    keys = [key for key, _ in STATE.written if not key.startswith("open-")]  # these may come twice
    assert len(keys) == len(set(keys)) == cut.writes, (keys, cut.code)
    process.session.close()
    return "resumed"


@pytest.mark.parametrize("process", [SameProcess, LaterProcess])
def test_every_write_happens_once_wherever_the_chain_is_cut(
    tmp_path: Path, process: type[SameProcess | LaterProcess]
) -> None:
    found: list[Cut] = []

    @given(cuts())
    def collect(cut: Cut) -> None:
        found.append(cut)

    async def run() -> None:
        ends: dict[str, int] = {}
        async with running_app(tmp_path, GATE) as app:
            for cut in found:
                end = await check(app, cut, process(app, tmp_path / "journals"))
                ends[end] = ends.get(end, 0) + 1
        print(ends)
        assert ends.get("resumed", 0) > 0

    collect()
    anyio.run(run)
