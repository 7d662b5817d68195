"""The file of a proxy's totals."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatemini.llm_proxy.totals import Totals, TotalsFile, read_totals


def test_a_folder_that_cannot_be_written_to_is_named_once_a_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a file").touch()
    totals = Totals("http://x")
    file = TotalsFile(totals, tmp_path / "a file" / "folder")
    for _ in range(3):
        file.write()
    totals.passed += 1
    file.write()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_what_was_written_is_read_with_its_counts(tmp_path: Path) -> None:
    totals = Totals("http://x")
    totals.record(
        "openai", 4_000, [400, 401], {"trim": {"dropped": 2, "tokens_before": 9, "tokens_after": 4}}
    )
    TotalsFile(totals, tmp_path).write(ended=True)
    (read,) = read_totals(tmp_path)
    assert (read.requests, read.upstream_requests, read.running) == (1, 2, False)
    assert (read.input_tokens_before, read.input_tokens) == (1_000, 100 + 101)
    assert read.steps["trim"] == {"messages": 2, "tokens": 5}
