"""docs/security.md: a reviewer finds the test for each defence, by the names that the page gives."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w./-]+?)(?:::(\w+))?`", PAGE)
WITHOUT = {"Assets, actors, boundaries"}
"""Sections that claim nothing."""
_PART = re.compile(r"^##+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED)))
def test_each_test_that_the_page_names_is_there(file: str, name: str) -> None:
    path = ROOT / file
    assert path.exists()
    if name:
        assert re.search(rf"^(?:async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE), name


def test_each_section_names_tests() -> None:
    parts = _PART.split(PAGE)[1:]
    silent = [title for title, text in zip(parts[::2], parts[1::2], strict=True) if "`tests/" not in text]
    assert set(silent) == WITHOUT


def test_each_defence_of_a_table_names_its_test() -> None:
    tables = re.findall(r"\| defended against \| by \| tested in \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert len(tables) == PAGE.count("| defended against |") > 5
    rows = [row for table in tables for row in table.splitlines()]
    before = ""
    for row in rows:
        tested = row.rstrip(" |").rpartition(" | ")[2]
        assert "`tests/" in tested or (tested == "the same" and "`tests/" in before), row
        before = tested if tested != "the same" else before


def test_every_dependency_has_bounds_and_is_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(d for ds in project["optional-dependencies"].values() for d in ds)]
    unbound = [each for each in wanted if "==" not in each and not (">=" in each and "<" in each)]
    assert [each for each in unbound if not each.startswith("gatemini[")] == []
    for lock in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=[a-z0-9])", lock.read_text("utf-8").strip())
        assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == [], (
            lock.name
        )
