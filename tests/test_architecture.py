"""The shape of the source: docs/architecture.md names files that exist, and files, functions and folders stay small.

What may import what is checked by the contracts of import-linter in pyproject.toml.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gateway/gatemini", "sandbox/gatemini_sandbox", "js_runtime/gatemini_js")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 50
MOST_FILES = 12
ONE_FILE_A_COMMAND = "gateway/gatemini/cli"
"""The folder that may have more files."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_tour_names_only_files_and_folders_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:gateway|sandbox|js_runtime|tests|docs)/[\w./]*)`", text)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_tour_has_a_row_for_each_folder_of_the_gateway() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = {f"`{relative(path.parent)}/`" for path in SOURCES if path.parent.parent == ROOT / FOLDERS[0]}
    assert {name for name in folders if name not in text} == set()


def test_each_file_says_in_a_docstring_what_it_does() -> None:
    texts = {relative(path): path.read_text("utf-8") for path in SOURCES}
    assert [
        name for name, text in texts.items() if text.strip() and not ast.get_docstring(ast.parse(text))
    ] == []


def test_no_file_is_named_for_being_shared() -> None:
    assert [relative(p) for p in SOURCES if p.stem in {"utils", "helpers", "common", "misc"}] == []


def test_no_file_is_long() -> None:
    long = {relative(p): n for p in SOURCES if (n := len(p.read_text("utf-8").splitlines())) > MOST_LINES}
    assert long == {}


def test_no_function_is_long() -> None:
    long = {
        f"{relative(path)}: {node.name}": lines
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}


def test_no_folder_is_large_but_the_one_of_commands() -> None:
    files = Counter(relative(path.parent) for path in SOURCES if path.name != "__init__.py")
    large = {folder: count for folder, count in files.items() if count > MOST_FILES}
    assert large.keys() <= {ONE_FILE_A_COMMAND}, large
