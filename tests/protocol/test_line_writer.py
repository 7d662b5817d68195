"""Lines to a client that reads late: the end of the gateway can wait until they are written."""

from __future__ import annotations

import os

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from gatemini.protocol.stdio.line_writer import LineWriter

pytestmark = pytest.mark.anyio

LINE = b"x" * (1 << 20) + b"\n"
"""More than a pipe holds."""


async def test_lines_count_as_written_once_a_late_reader_has_room_for_them() -> None:
    reader, writer = os.pipe()
    lines, flushed = LineWriter(writer), anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def flush() -> None:
            await lines.flushed()
            flushed.set()

        for _ in range(2):
            tasks.start_soon(lines.send, LINE)
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(flush)
        await anyio.wait_all_tasks_blocked()
        assert not flushed.is_set()
        read = 0
        while read < 2 * len(LINE):
            read += len(await anyio.to_thread.run_sync(os.read, reader, 1 << 20))
        with anyio.fail_after(10):
            await flushed.wait()
    os.close(reader)
    os.close(writer)
