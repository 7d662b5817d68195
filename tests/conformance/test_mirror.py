"""The official conformance suite through a mirror that sends each call as a chain: the results of the direct run."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from fixtures.conformance.serving import direct, mirrored
from fixtures.conformance.suite import REVISIONS, compared, differences, missing, run
from fixtures.daemons import home as made

pytestmark = [
    pytest.mark.npm,
    pytest.mark.long,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.mark.parametrize("revision", REVISIONS)
def test_calls_that_are_sent_as_chains_have_the_results_of_the_direct_run(
    revision: str, tmp_path: Path
) -> None:
    words = ("server", "--requirements", revision, "--url")
    (tmp_path / "direct").mkdir()
    (tmp_path / "mirror").mkdir()
    with made() as home, direct(home) as url:
        expected = run(tmp_path / "direct", *words, url)
    assert differences(expected, "direct", revision) == []
    with made() as home, mirrored(home) as url:
        checks = run(tmp_path / "mirror", *words, url)
        chains = httpx2.get(url.replace("/mcp", "/chains"), trust_env=False, timeout=60).json()
    assert chains >= 20
    assert differences(compared(checks, expected), "mirror", revision) == []
