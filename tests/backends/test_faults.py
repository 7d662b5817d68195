"""Each fault of a backend in turn; after each of them the same conditions hold (`fixtures/faults.py`).

Details of single faults are tested in `test_calls.py`, `test_stream_faults.py`, `test_http.py` and `test_processes.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, survive
from fixtures.http_faults import HTTP_FAULTS
from fixtures.process_faults import PROCESS_FAULTS
from fixtures.storage_faults import STORAGE_FAULTS

pytestmark = pytest.mark.anyio

FAULTS: dict[str, Fault] = {**PROCESS_FAULTS, **HTTP_FAULTS, **STORAGE_FAULTS}
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "backends.md"


def in_tiers() -> list[Any]:
    """The first fault of each row of the page always, those like it and the slow ones in the long tier."""
    first = {fault.row: name for name, fault in reversed(FAULTS.items())}
    long = {name for name, fault in FAULTS.items() if fault.slow or name != first[fault.row]}
    return [pytest.param(name, marks=[pytest.mark.long] if name in long else []) for name in FAULTS]


@pytest.mark.parametrize("name", in_tiers())
async def test_a_fault_of_one_backend_affects_no_other(tmp_path: Path, name: str) -> None:
    await survive(FAULTS[name], tmp_path)


def test_every_fault_of_the_page_on_backends_is_tested() -> None:
    section = PAGE.read_text().partition("## Faults\n")[2].partition("\n## ")[0]
    rows = [found.strip() for found in re.findall(r"^\| ([^|]+) \|", section, re.M)]
    assert rows[0] == "fault"
    assert sorted(rows[1:]) == sorted({fault.row for fault in FAULTS.values()})
