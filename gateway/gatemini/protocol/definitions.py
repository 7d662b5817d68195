"""Definitions of the seven meta-tools: names, descriptions, flat input schemas, annotations.

Descriptions carry the important part first (some clients cut at 2,048 characters) and together stay under 1,500 tokens;
a test holds both.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatemini.model import Json
from gatemini.protocol.sessions.budgets import INLINE_META, UNKNOWN
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten

MAX_DESCRIPTION = 2_048
"""Longest description, in characters, that every known client keeps."""
INVENTORY_CHARS = 700
"""Characters of the backend list in `search_tools`; further backends are counted."""
DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_OUTPUT_CHARS = 200_000
MIN_OUTPUT_CHARS = 100
"""Smallest output size: the mark of a cut needs that much."""
DEFAULT_LIMIT, MAX_LIMIT = 10, 50
DEFAULT_PAGE, MAX_PAGE = 50, 500

SEARCH_TOOLS = "search_tools"
LIST_TOOLS_META = "list_tools_meta"
TOOL_INFO = "tool_info"
REQUIRED_KEYS = "get_required_keys_for_tool"
CALL_TOOL_CHAIN = "call_tool_chain"
REGISTER_MANUAL = "register_manual"
DEREGISTER_MANUAL = "deregister_manual"

_LONG_ANSWERS = (SEARCH_TOOLS, TOOL_INFO, CALL_TOOL_CHAIN)

_READ = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_ACT = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}

_SEARCH = """Find backend tools by task; start here. They are not in your tool list: they run inside call_tool_chain. \
Any words or language, names and fragments work. The best results have types, `args` and `returns`, and the first a \
`call` to paste there.{inventory}"""

_CHAIN = """Run TypeScript that calls backend tools; you get only what it returns. Each backend is a global: \
`const r = await exa.web_search_exa({query: "mcp"}); return r.results.length;`. Names come from search_tools. Combine \
calls with loops, filter and Promise.all; return just what you need. No imports, network or files. A large result is \
shortened; `await results.load("res_...")` in the next chain has it whole."""


_TEXT: Json = {"type": "string"}
_TOOLS: dict[str, tuple[str, Json, list[str], Json]] = {
    SEARCH_TOOLS: (
        _SEARCH,
        {
            "task_description": _TEXT,
            "limit": {"type": "integer", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_LIMIT},
            "brief": {"type": "boolean", "default": True},
            "tag": _TEXT,
        },
        ["task_description"],
        _READ,
    ),
    LIST_TOOLS_META: (
        "All tool names, in pages.",
        {
            "cursor": _TEXT,
            "page_size": {"type": "integer", "default": DEFAULT_PAGE, "minimum": 1, "maximum": MAX_PAGE},
        },
        [],
        _READ,
    ),
    TOOL_INFO: (
        "A tool's parameters, one-line TypeScript signature and call; full: whole description and schemas.",
        {
            "tool_name": _TEXT,
            "detail": {"type": "string", "enum": ["brief", "full"], "default": "brief"},
        },
        ["tool_name"],
        _READ,
    ),
    REQUIRED_KEYS: (
        "Names of the keys that a tool's backend needs and lacks.",
        {"tool_name": _TEXT},
        ["tool_name"],
        _READ,
    ),
    CALL_TOOL_CHAIN: (
        _CHAIN,
        {
            "code": _TEXT,
            "timeout": {
                "type": "integer",
                "default": DEFAULT_TIMEOUT_MS,
                "minimum": 1,
                "maximum": 600_000,
                "description": "ms",
            },
            "max_output_size": {
                "type": "integer",
                "default": DEFAULT_OUTPUT_CHARS,
                "minimum": MIN_OUTPUT_CHARS,
                "description": "characters",
            },
            "intent": {"type": "string", "description": "What you look for; a large result keeps only that"},
        },
        ["code"],
        _ACT,
    ),
    REGISTER_MANUAL: (
        "Add an MCP server or CLI tools until the gateway stops, where policy allows it.",
        {
            "manual_call_template": {
                "type": "object",
                "description": "name, and one of: command (args, env, cwd); url (headers); tools (CLI commands)",
            }
        },
        ["manual_call_template"],
        _ACT,
    ),
    DEREGISTER_MANUAL: ("Remove what register_manual added.", {"manual_name": _TEXT}, ["manual_name"], _ACT),
}
"""Name → (description, parameters, required ones, annotations). A parameter with a telling name has no description,
since the model pays for the definitions at every turn.
"""


def tool_definitions(inventory: Sequence[tuple[str, int]] = ()) -> list[Json]:
    """Return the seven definitions; `inventory` is (backend, number of tools), shown largest first.

    Call it once per connection: a description that changes breaks prompt caches.
    """
    made: list[Json] = []
    for name, (description, properties, required, hints) in _TOOLS.items():
        schema: Json = {"type": "object", "properties": properties}
        tool: Json = {
            "name": name,
            "description": shorten(
                description.replace("{inventory}", _inventory(inventory)), MAX_DESCRIPTION
            ),
            "inputSchema": schema | ({"required": required} if required else {}),
            "annotations": hints,
        }
        made.append(tool | ({"_meta": {INLINE_META: UNKNOWN.result.plain}} if name in _LONG_ANSWERS else {}))
    return made


def _inventory(inventory: Sequence[tuple[str, int]]) -> str:
    if not inventory:
        return " No backend has listed tools yet."
    ordered = sorted(inventory, key=lambda entry: (-entry[1], entry[0]))
    shown: list[str] = []
    used = 0
    for name, count in ordered:
        # No count is shown for 0: the backend may be connecting for the first time, which differs from having no
        # tools.
        entry = shorten(one_line(name), 40) + (f" ({count})" if count else "")
        used += len(entry.encode()) + 2
        if used > INVENTORY_CHARS:
            break
        shown.append(entry)
    left = len(ordered) - len(shown)
    more = f", +{left} more" if left else ""
    return f"\nBackends (tools): {', '.join(shown)}{more}."
