"""`gatemini://health` over real processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fixtures.direct import DEMO_SERVER
from fixtures.running import DEMO, running_app

pytestmark = pytest.mark.anyio


async def test_health_shows_the_memory_of_a_process_that_just_started(tmp_path: Path) -> None:
    process = {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}
    async with running_app(tmp_path, {**DEMO, "process": process}) as app:
        _, text = await app.surface(app.new_session()).read_resource("gatemini://health")
        backends = json.loads(text)["backends"]
    assert backends["process"]["pid"] is not None
    assert backends["process"]["peak_rss_bytes"] >= backends["process"]["rss_bytes"] > 1_000_000
    assert backends["demo"]["rss_bytes"] is None  # it runs in the gateway's own process
