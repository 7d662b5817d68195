"""Declarations and signatures of any schema compile with the TypeScript compiler under --strict."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.npm import MODULES, missing
from gatemini.discovery.types.identifiers import call_expression, variable_name
from gatemini.discovery.types.schema_reader import required_parameters
from gatemini.discovery.types.typescript import (
    argument_types,
    backend_declarations,
    declaration,
    result_type,
    signature,
)
from gatemini.model import Tool

pytestmark = [
    pytest.mark.npm,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]

CORPUS = os.environ.get("GATEMINI_SEARCH_BENCH")
NODE_SECONDS = 300
"""Bounds one run of the compiler over thousands of modules."""

TREE = {
    "$defs": {"Node": {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/Node"}}}}},
    "properties": {"root": {"$ref": "#/$defs/Node"}, "other": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
}
LOOPS = {
    "$defs": {
        "A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "string"}]},
        "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "number"}]},
        "C": {"allOf": [{"$ref": "#/$defs/C"}]},
        "D": {"$ref": "#/$defs/D"},
        "E": {"properties": {"x": {"$ref": "#/$defs/F"}}, "anyOf": [{"$ref": "#/$defs/F"}]},
        "F": {"anyOf": [{"$ref": "#/$defs/E"}, {"type": "null"}]},
    },
    "properties": {k.lower() + str(i): {"$ref": f"#/$defs/{k}"} for k in "ABCDEF" for i in range(2)},
    "required": ["a0"],
}
ZOO: dict[str, Any] = {
    "empty": {},
    "string root": {"type": "string"},
    "root reference": {
        "$ref": "#/$defs/X",
        "$defs": {"X": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
    },
    "root anyOf": {
        "anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"]},
        ]
    },
    "alternatives of required": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "no properties": {"type": "object"},
    "nullable root": {"type": ["object", "null"], "properties": {"a": {}}},
    "true property": {"type": "object", "properties": {"x": True, "y": False}, "required": ["x", "y"]},
    "self reference": TREE,
    "root loop": {"type": "object", "properties": {"again": {"$ref": "#"}, "more": {"items": {"$ref": "#"}}}},
    "loops": LOOPS,
    "remote": {"properties": {"a": {"$ref": "https://example.com/schema.json#/x"}}, "required": ["a"]},
    "dangling": {"properties": {"a": {"$ref": "#/$defs/None"}, "b": {"$ref": "#/properties/a"}}},
    "odd names": {
        "properties": {
            n: {"type": "string"}
            for n in ("my-prop", "a b", "class", "", "日本", "2fa", "__proto__", "new", "a\u200bb", '"', "\n", "*/")
        },
        "required": ["my-prop", "a b", "class", "", "日本", "2fa", "__proto__", "new", "a\u200bb", '"', "\n", "*/"],
    },
    "large enum": {"properties": {"e": {"enum": [f"value {i} */" for i in range(400)]}}, "required": ["e"]},
    "mixed enum": {"properties": {"e": {"enum": [1, -2.5, "x", None, True, {"a": [1]}, [], {}, 10**400, 1e999]}}},
    "const": {"properties": {"c": {"const": "*/ \u2028"}, "d": {"const": None}, "n": {"const": {"a": 1}}}},
    "long description": {"description": "*/\n" * 20_000, "properties": {"a": {"description": "*/ end\n" * 9_000}}},
    "null required": {"properties": {"a": {"type": "string"}}, "required": None},
    "required unknown": {"properties": {"a": {"type": "string"}}, "required": ["zzz", 5, "a"]},
    "tuple": {"properties": {"t": {"type": "array", "prefixItems": [{"type": "number"}, {}], "items": False}}},
    "open tuple": {"properties": {"t": {"type": "array", "prefixItems": [{"type": "number"}], "items": {"type": "null"}}}},
    "old tuple": {"properties": {"t": {"type": "array", "items": [{"type": "string"}], "additionalItems": True}}},
    "map": {"properties": {"m": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}}},
    "open object": {"properties": {"a": {"type": "number"}}, "additionalProperties": {"type": "string"}},
    "patterns": {"properties": {"m": {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}}},
    "closed": {"type": "object", "properties": {"o": {"type": "object", "additionalProperties": False}}},
    "nullable": {"properties": {"a": {"type": "string", "nullable": True}}, "required": ["a"]},
    "wrong kinds": {"type": 5, "properties": [], "required": "a", "anyOf": {}, "items": "x", "enum": "y"},
    "array of unions": {"properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"allOf": [{}, {"type": "null"}]}]}}}},
    "deep": {"properties": {"a": json.loads('{"properties":{"a":' * 300 + "{}" + "}}" * 300)}},
    "pointer escapes": {"$defs": {"a/b~c d": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/a~1b~0c%20d"}}},
    "doubling": {
        "$defs": {
            f"D{i}": {"properties": {"l": {"$ref": f"#/$defs/D{i + 1}"}, "r": {"$ref": f"#/$defs/D{i + 1}"}}}
            for i in range(30)
        },
        "properties": {"top": {"$ref": "#/$defs/D0"}},
    },
}  # fmt: skip

NAMES = ["repo.get", "repo/list", "get-user", "get_user", "delete", "2fa", "then", "constructor", "__proto__"]
NAMES += ["日本", "x" * 200, "y" * 10_000, "new", "get", "set", "call", "toString", "a\u200bb", '"', "\n", ""]


def module_of(name: str, tool: Tool) -> dict[str, str]:
    """Return the declaration and a function that makes the example call with variables of any type."""
    required = required_parameters(tool.input_schema)
    names = {"args"} | {variable_name(n) for n in required}
    variables = "".join(f"const {v}: any = undefined as any; " for v in names)
    call = call_expression(tool.namespace or tool.backend, tool.name, required)
    return {
        "name": name,
        "text": f"{declaration(tool)}async function run() {{ {variables}return {call}; }}\n",
    }


def types_of(name: str, tool: Tool) -> dict[str, str]:
    """Return the types in a search result, as declarations."""
    told = {"Arguments": argument_types(tool), "Returned": result_type(tool)}
    return {"name": name, "text": "".join(f"type {n} = {t or 'unknown'};\n" for n, t in told.items())}


def modules_of(tools: list[Tool], mark: str = "") -> list[dict[str, str]]:
    """Return everything that is shown of each tool, as modules to compile."""
    modules = []
    for index, tool in enumerate(tools):
        modules += [module_of(f"d{mark}{index}", tool), types_of(f"a{mark}{index}", tool)]
        modules.append({"name": f"s{mark}{index}", "text": signature(tool)})
    return modules


def compile_errors(modules: list[dict[str, str]]) -> list[Any]:
    script = Path(__file__).with_name("typecheck.cjs")
    done = subprocess.run(
        ["node", str(script), str(MODULES)],
        input=json.dumps(modules),
        text=True,
        capture_output=True,
        timeout=NODE_SECONDS,
        check=True,
    )
    return list(json.loads(done.stdout))


def test_the_typescript_check_finds_errors() -> None:
    found = compile_errors([{"name": "bad", "text": "const a: number = 'x'; await nothing.here({});"}])
    assert len(found) == 2


def test_every_schema_of_the_zoo_compiles_and_its_call_fits() -> None:
    tools = [Tool("demo", "tool", name, schema, schema) for name, schema in ZOO.items()]
    assert compile_errors(modules_of(tools)) == []


def test_every_odd_name_compiles_and_its_call_fits() -> None:
    modules = []
    for number, backend in enumerate(["files-eu", "delete", "fetch", "2x", "__composite", "日本"]):
        tools = [Tool(backend, name, "odd */ name", TREE, TREE) for name in NAMES]
        modules += modules_of(tools, f"{number}_")
        modules.append({"name": f"all{number}", "text": backend_declarations(tools)})
        modules.append({"name": f"quoted{number}", "text": backend_declarations(tools, spoken=False)})
        modules.append({"name": f"one{number}", "text": signature(tools[0], spoken=False)})
    assert compile_errors(modules) == []


@pytest.mark.skipif(CORPUS is None, reason="GATEMINI_SEARCH_BENCH does not name the folder of the benchmark")
def test_every_schema_of_the_corpus_compiles_and_its_call_fits() -> None:
    entries = json.loads((Path(CORPUS or "") / "corpus.json").read_text("utf-8"))["tools"]
    tools = [
        Tool(e["server"], e["name"], e["description"] or "", e["inputSchema"] or {}, e.get("outputSchema"))
        for e in entries
    ]
    assert compile_errors(modules_of(tools)) == []
