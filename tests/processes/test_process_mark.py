"""The mark by which a child and all that it starts are found again."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest

from gatemini.processes import process_mark, watchdog
from gatemini.processes.pipes import ChildPipes

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are marks on Linux only"),
]


def ignore(part: bytes) -> bool:
    return False


async def test_a_child_has_its_own_mark_where_a_thread_starts_another_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Secrets' commands are started on threads, and the limit that is the mark is that of the whole process.
    marks: list[int] = []

    def set_mark(own: Callable[[], int] = process_mark.set_mark) -> int:
        marks.extend((own(), own()))
        return marks[0]

    monkeypatch.setattr(process_mark, "set_mark", set_mark)
    child = ChildPipes("child", ignore, ignore)
    await child.start([sys.executable, "-c", "input()"], cwd=None, env={})
    try:
        assert resource.prlimit(child.pid, resource.RLIMIT_RTTIME)[0] == marks[0]
        assert watchdog.marked(marks[1]) == set()
    finally:
        child.end_input()
        await child.exited.wait()
        child.close()
