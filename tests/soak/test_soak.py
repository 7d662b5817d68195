"""The soak of `make soak` for two minutes or SOAK_SECONDS: no answer lost or crossed, nothing left running."""

from __future__ import annotations

import os

import pytest

from fixtures.soak import soak

pytestmark = pytest.mark.anyio

SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))


@pytest.mark.long
async def test_thirty_backends_and_64_clients_survive_kills_and_reloads_without_a_lost_answer() -> None:
    report = await soak(SECONDS)
    assert report.problems() == [], report.table()
    assert set(report.by_tier) == {1, 2, 3}
    assert len(report.done) >= 2, "something was done to the backends"
