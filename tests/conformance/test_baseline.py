"""The comparison with the baseline sees both kinds of difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.conformance import suite
from fixtures.conformance.suite import Check, differences

BASELINE = """
face:
  "2026-07-28":
  - reason: known
    checks: ["tools-list:names", "tasks"]
"""


@pytest.fixture(autouse=True)
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "baseline.yaml"
    path.write_text(BASELINE)
    monkeypatch.setattr(suite, "BASELINE", path)


def found(**failed: bool) -> list[str]:
    names = {"names": "tools-list:names", "other": "tools-list:other", "tasks": "tasks:any"}
    checks = {names[key]: Check(names[key], value, "because") for key, value in failed.items()}
    return differences(checks, "face", "2026-07-28")


def test_failures_that_the_baseline_lists_are_expected() -> None:
    assert found(names=True, tasks=True, other=False) == []


def test_a_failure_that_the_baseline_does_not_list_is_a_difference() -> None:
    assert found(names=True, tasks=True, other=True) == ["tools-list:other fails: because"]


def test_an_entry_that_passes_or_is_gone_is_a_difference() -> None:
    assert [line.partition(" ")[0] for line in found(names=False)] == ["tools-list:names", "tasks"]
