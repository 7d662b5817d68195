"""The official conformance suite against `gatemini serve --http`: what fails is listed with its reason, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.conformance.serving import serving
from fixtures.conformance.suite import REVISIONS, differences, missing, run
from fixtures.daemons import home as made

pytestmark = [pytest.mark.npm, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_face_fails_only_what_needs_tools_of_the_suite(revision: str, tmp_path: Path) -> None:
    with made() as home, serving(home, {}) as url:
        checks = run(tmp_path, "server", "--url", url, "--requirements", revision)
    assert differences(checks, "face", revision) == []
