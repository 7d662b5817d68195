"""What a call costs more when its chain's journal is on disk, so that a killed daemon's chains can be resumed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from anyio.from_thread import BlockingPortal, start_blocking_portal
from tests.benchmarks.guests import running_app
from tests.benchmarks.measure import Outcome, Ratio, take_turns

from gatemini.app import App
from gatemini.chain.replay.journal_file import Codec
from gatemini.chain.replay.stored_journals import StoredJournals
from gatemini.daemon.sessions.seal import Seal

ONE = '{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}'
LOOP = "let n = 0; for (let i = 0; i < 50; i++) n = (await demo.add({ a: n, b: 1 })).sum; return n"
MOST = 1.15
"""The most that a call may take with its journal on disk, as a multiple of one without."""


def journals(rounds: int) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="gatemini-journals-"))
    try:
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(running_app(folder)) as app:
            return _measured(portal, app, folder, rounds)
    finally:
        shutil.rmtree(folder)


def _measured(portal: BlockingPortal, app: App, folder: Path, rounds: int) -> Outcome:
    def contestant(code: str, kind: str) -> Callable[[], None]:
        session = app.new_session()
        if kind != "in memory":
            codec: Codec | None = Seal(folder / "seal") if kind == "sealed" else None
            kept = Path(tempfile.mkdtemp(dir=folder))
            session.journals.new_file = StoredJournals(kept, codec).file

        def run() -> None:
            answer = portal.call(app.call_meta_tool, "call_tool_chain", {"code": code}, session)
            assert not answer["isError"], answer

        return run

    kinds = ("in memory", "on disk", "sealed")
    figures, ratios = [], []
    for scenario, code, repeat in (("journal, one call", ONE, 50), ("journal, 50 calls in a loop", LOOP, 2)):
        found = take_turns(scenario, {kind: contestant(code, kind) for kind in kinds}, rounds, repeat=repeat)
        figures += found.values()
        for kind in kinds[1:]:
            value = found[kind].median_ms / found["in memory"].median_ms
            ratios.append(Ratio(scenario, f"{kind} / in memory", value, f"≤ {MOST}", value <= MOST))
    return Outcome(tuple(figures), tuple(ratios))
