"""The docs are a contract: links lead somewhere, codes have an entry, README stays short."""

import ast
import re
from pathlib import Path

import pytest

from gatemini.errors import GateminiError
from gatemini_sandbox.errors import SandboxError

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_link_inside_the_project_leads_to_a_file(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target or target.startswith(("mailto:", "gatemini:")):
            continue
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_stays_within_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def error_codes() -> set[str]:
    codes: set[str] = set()
    for path in [*(ROOT / "gateway").rglob("errors.py"), *(ROOT / "sandbox").rglob("errors.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if getattr(target, "id", None) == "code" and isinstance(value, ast.Constant):
                codes.add(str(value.value))
    return codes


def test_every_error_code_has_an_entry_in_troubleshooting() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert {c for c in error_codes() if f"`{c}`" not in text} == set()


def raised_by_name(root: type[Exception]) -> dict[str, str]:
    """Name → code of each error that has a code of its own."""
    found: dict[str, str] = {}
    for kind in root.__subclasses__():
        found |= raised_by_name(kind)
        if "code" in vars(kind):
            found[kind.__name__] = str(vars(kind)["code"])
    return found


def names_of_the_sandbox() -> set[str]:
    """What the host calls the errors that end a guest, and what fails a call."""
    texts = [p.read_text() for d in ("sandbox", "gateway") for p in (ROOT / d).rglob("*.py")]
    said = re.compile(
        r'''(?:ErrorInfo\(|_limit\(|codes\.[A-Z_]+: \(|"name": |\.name, error\.message = |^    name = )\s*"([A-Z][A-Za-z]+)"''',
        re.M,
    )
    return {name for text in texts for name in said.findall(text)}


def test_every_shown_error_name_is_in_troubleshooting() -> None:
    lines = (ROOT / "docs" / "troubleshooting.md").read_text().splitlines()
    errors = {**raised_by_name(GateminiError), **raised_by_name(SandboxError)}
    del errors["ChainQueued"]  # is shown as the ChainTimeout that it is
    assert errors["ToolNotFound"] == "tool.not_found"
    for name, code in errors.items():
        assert any(line.startswith(f"| `{code}` |") and f"`{name}`" in line for line in lines), name
    others = names_of_the_sandbox()
    assert {"TimeoutError", "MemoryError", "StackError", "DeadlockError", "LimitError", "ToolError"} <= others
    assert {name for name in others if not any(f"`{name}`" in line for line in lines)} == set()


def test_every_page_is_reachable_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    linked = {(ROOT / "docs" / t).resolve() for t in LINK.findall(index) if "://" not in t}
    pages = {p.resolve() for p in (ROOT / "docs").rglob("*.md") if p.name != "index.md"}
    assert pages - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_that_pages_name_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:gateway|sandbox|js_runtime|tests|docs|requirements)/[\w./-]+\.\w+)`", page.read_text()
    )
    assert [n for n in named if not (ROOT / n).exists()] == []
