"""docs/architecture.md is the contract: its table names every file, what it holds and what it may import."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "gatemini": ROOT / "gateway" / "gatemini",
    "gatemini_sandbox": ROOT / "sandbox" / "gatemini_sandbox",
    "gatemini_js": ROOT / "js_runtime" / "gatemini_js",
}
ROW = re.compile(r"^\| `([^`]+)` \| (.+?) \| (.*?) \|$")
# Two named exceptions to "imports at the top only": the CLI's dispatch, and one loader per optional extra.
LAZY_IMPORTS = (
    "gateway/gatemini/cli/",
    "gateway/gatemini/search/embeddings.py",
    "gateway/gatemini/config/bitwarden.py",
    "gateway/gatemini/config/providers.py",
)


def table() -> dict[str, tuple[str, set[str]]]:
    rows: dict[str, tuple[str, set[str]]] = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        match = ROW.match(line)
        if match:
            assert match[1] not in rows, f"two rows for {match[1]} in docs/architecture.md"
            rows[match[1]] = (match[2], set(re.findall(r"`([^`]+)`", match[3])))
    return rows


def sources() -> list[Path]:
    return sorted(p for folder in PACKAGES.values() for p in folder.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    for package, folder in PACKAGES.items():
        if folder in path.parents:
            parts = path.relative_to(folder).with_suffix("").parts
            return ".".join([package, *(p for p in parts if p != "__init__")])
    raise AssertionError(path)


def own_imports(path: Path) -> set[str]:
    """Dotted names of the project's own modules that a file imports (for `from a import b`: a.b if a module)."""
    modules = {module_name(p) for p in sources()}
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [
                f"{node.module}.{a.name}" if f"{node.module}.{a.name}" in modules else node.module
                for a in node.names
            ]
        found.update(n for n in names if n.split(".")[0] in PACKAGES)
    return found - {module_name(path)}


def test_every_file_has_a_row_and_every_row_a_file() -> None:
    rows = set(table())
    files = {relative(p) for p in sources() if p.name != "__init__.py" or p.read_text().strip()}
    assert files - rows == set(), "files without a row in docs/architecture.md"
    assert {r for r in rows if not (ROOT / r).exists()} == set(), "rows for files that are gone"


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_a_file_imports_only_what_its_row_allows(path: Path) -> None:
    row = table().get(relative(path))
    if row is None:
        assert not path.read_text().strip(), "no row"
        return
    allowed = row[1]
    for name in own_imports(path):
        assert any(name == a or name.startswith(a + ".") for a in allowed), f"{relative(path)} imports {name}"


def test_the_sandbox_imports_nothing_of_the_gateway() -> None:
    for path in sources():
        if module_name(path).startswith(("gatemini_sandbox", "gatemini_js")):
            assert not [n for n in own_imports(path) if n.split(".")[0] == "gatemini"], relative(path)


def test_there_are_no_import_cycles() -> None:
    graph = {module_name(p): own_imports(p) for p in sources()}
    done: set[str] = set()

    def visit(node: str, trail: tuple[str, ...]) -> None:
        assert node not in trail, "cycle: " + " -> ".join([*trail, node])
        if node in done:
            return
        for below in sorted(graph.get(node, ())):
            visit(below, (*trail, node))
        done.add(node)

    for node in sorted(graph):
        visit(node, ())


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_imports_stand_at_the_top(path: Path) -> None:
    if relative(path).startswith(LAZY_IMPORTS):
        return
    tree = ast.parse(path.read_text())
    inner = [
        n.lineno
        for f in ast.walk(tree)
        if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)
        for n in ast.walk(f)
        if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    assert not inner, f"{relative(path)} imports inside a function at lines {inner}"


@pytest.mark.parametrize("path", sources(), ids=relative)
def test_files_say_what_they_do_and_stay_readable(path: Path) -> None:
    text = path.read_text()
    if not text.strip():
        return
    assert ast.get_docstring(ast.parse(text)), f"{relative(path)} has no module docstring"
    assert len(text.splitlines()) <= 550, f"{relative(path)} is too long to read: split it"
    assert path.stem not in {"utils", "helpers", "common"}


def test_only_search_imports_numpy() -> None:
    """`gatemini.search` asks for one BLAS thread before numpy loads; an earlier import would undo that (x30)."""
    for path in sources():
        if "numpy" in path.read_text() and "gatemini/search/" not in relative(path):
            tree = ast.parse(path.read_text())
            names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            assert "numpy" not in names, relative(path)
