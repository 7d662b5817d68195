"""A small MCP server without any SDK: `python -P plain_server.py [TOOLS [FILE]]`, on stdio until its input ends.

A call costs it a few hundredths of a millisecond, as it would a server in a compiled language, so that what is
measured is the contestant in front of it. It speaks the handshake revisions and has `echo`, `rows` (a result of
the requested size), and as many tools more as TOOLS says, which are only listed. Where FILE exists it never answers.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602

READS = {"readOnlyHint": True}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Give back the arguments as they came.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": READS,
    },
    {
        "name": "rows",
        "description": "List rows of id, name and text that make so many bytes of JSON.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "bytes": {"type": "integer", "minimum": 0},
                "shape": {"enum": ["rows", "text", "structured", "numbers", "objects"]},
            },
            "required": ["bytes"],
            "additionalProperties": False,
        },
        "annotations": READS,
    },
]


def more_tools(count: int) -> list[dict[str, Any]]:
    """Tools that differ enough to be searched for."""
    verbs = ("create", "delete", "list", "update", "archive", "count", "merge", "export")
    things = ("invoice", "ticket", "branch", "calendar", "customer", "build", "message", "shipment")
    made = []
    for number in range(count):
        verb, thing = verbs[number % len(verbs)], things[number // len(verbs) % len(things)]
        made.append(
            {
                "name": f"{verb}_{thing}_{number}",
                "description": f"{verb.capitalize()} one {thing} of the account, by its number or its title.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        f"{thing}_id": {"type": "integer", "description": f"Number of the {thing}"},
                        "title": {"type": "string", "description": "As shown in the list"},
                    },
                    "required": [f"{thing}_id"],
                },
            }
        )
    return made


@lru_cache(maxsize=8)
def rows(size: int) -> str:
    """Kept, since making them is not what is measured."""
    text = "words of a row " * 8
    one = {"id": 10_000_000, "name": "a row", "text": text}
    count = size // (len(orjson.dumps(one)) + 1)
    return orjson.dumps([{**one, "id": 10_000_000 + number} for number in range(count)]).decode()


@lru_cache(maxsize=12)
def shaped(shape: str, size: int) -> dict[str, Any]:
    """A result of so many bytes that is no text of rows; kept as well."""
    if shape == "text":
        line = 'words in a "line" of a text\n'
        return {"content": [{"type": "text", "text": line * (size // (len(line) + 3))}]}
    value: Any
    if shape == "structured":
        value = orjson.loads(rows(size))
    elif shape == "numbers":
        value = [number * 7 % 100_003 for number in range(size // 6)]
    else:
        value = {f"k{number}": {"a": {"b": number}} for number in range(size // 26)}
    return {"content": [], "structuredContent": {"value": value}}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The outcome of `tools/call` as a member of its answer."""
    if name == "echo":
        text = orjson.dumps(arguments).decode()
        content = [{"type": "text", "text": text}]
        return {"result": {"content": content, "structuredContent": arguments, "isError": False}}
    if name == "rows" and arguments.get("shape", "rows") != "rows":
        return {"result": shaped(arguments["shape"], arguments["bytes"])}
    if name == "rows":
        return {"result": {"content": [{"type": "text", "text": rows(arguments["bytes"])}], "isError": False}}
    return {"error": {"code": INVALID_PARAMS, "message": f"unknown tool {name}"}}


def answer(request: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The `result` or the `error` of a request, as a member of its answer."""
    method, params = request["method"], request.get("params") or {}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    if method == "initialize":
        asked = params.get("protocolVersion")
        version = asked if asked in VERSIONS else VERSIONS[0]
        info = {"name": "plain", "version": "1.0.0"}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": tools}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": UNKNOWN_METHOD, "message": f"unknown method {method}"}}


def main(argv: list[str]) -> None:
    tools = TOOLS + more_tools(int(argv[0]) if argv else 0)
    silent = len(argv) > 1 and Path(argv[1]).exists()
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        if "id" in request and not silent:
            reply = {"jsonrpc": "2.0", "id": request["id"], **answer(request, tools)}
            sys.stdout.buffer.write(orjson.dumps(reply) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
