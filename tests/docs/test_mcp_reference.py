"""docs/reference/mcp.md names every tool with its parameters and defaults, every resource and every prompt."""

import json
import re
from pathlib import Path

from fixtures.catalog import catalog
from gatemini.output.store.results import ResultStore
from gatemini.protocol.definitions import tool_definitions
from gatemini.protocol.resources.documents import list_resources, list_templates
from gatemini.protocol.resources.prompts import PROMPTS
from gatemini.protocol.resources.view import View
from gatemini.tracker import Tracker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "mcp.md").read_text("utf-8")
CELLS = [
    [c.strip().strip("`") for c in line.split("|")[1:-1]] for line in PAGE.splitlines() if line[:1] == "|"
]


def test_every_parameter_is_listed_with_its_type_and_default() -> None:
    documented: dict[tuple[str, str], tuple[str, str]] = {}
    tool = ""
    for cells in CELLS:
        if len(cells) == 5 and cells[1] not in ("parameter", "---"):
            tool = cells[0] or tool
            documented[tool, cells[1]] = (cells[2], cells[3])
    real: dict[tuple[str, str], tuple[str, str]] = {}
    for definition in tool_definitions():
        schema = definition["inputSchema"]
        for name, prop in schema["properties"].items():
            default = prop.get("default", "required" if name in schema.get("required", ()) else "none")
            shown = default if isinstance(default, str) else json.dumps(default)
            real[definition["name"], name] = (prop["type"], shown)
    assert documented == real


def test_exactly_the_existing_resource_templates_and_prompts_are_listed() -> None:
    store = ResultStore()
    view = View(catalog()[0], [], Tracker(), store)
    addresses = {r["uri"] for r in list_resources(view)} | {t["uriTemplate"] for t in list_templates(view)}
    store.close()
    assert {c[0] for c in CELLS if c[0].startswith("gatemini://")} == addresses
    after = PAGE.partition("## Prompts")[2]
    assert re.findall(r"^\| `(\w+)`", after, re.MULTILINE) == [p["name"] for p in PROMPTS]
