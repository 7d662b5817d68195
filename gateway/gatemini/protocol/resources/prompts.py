"""The three prompts: `discover`, `find_tool`, `backend_status`, as pure functions of a `View` and the index."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import orjson

from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.discovery.types.identifiers import LONGEST_NAME, short_name, variable_name
from gatemini.discovery.types.schema_reader import follow, required_parameters
from gatemini.discovery.types.typescript import declaration, signature
from gatemini.errors import InvalidRequest, ResourceNotFound
from gatemini.model import Json, Offer, Tool
from gatemini.protocol.answers.fitting import shown
from gatemini.protocol.answers.guides import STEPS
from gatemini.protocol.answers.rows import call_of
from gatemini.protocol.resources.view import View, backend_rows
from gatemini.text.escape import js_string, visible
from gatemini.text.shorten import counted, first_sentence, shorten

_MATCHES = 5
_CANDIDATES = 20
"""Hits looked at: resources and prompts are among them."""
_DESCRIPTION_CHARS = 2_000
_SCHEMA_CHARS = 24_000
_SAMPLE_CHARS = 60
_SAMPLES: Mapping[str, str] = {
    "string": '"..."',
    "number": "1",
    "integer": "1",
    "boolean": "true",
    "array": "[]",
    "object": "{}",
}

PROMPTS: list[Json] = [
    {
        "name": "discover",
        "title": "Discover",
        "description": "A walk through the four steps on the present tools",
    },
    {
        "name": "find_tool",
        "title": "Find a tool",
        "description": "The best tools for a task, the first one's schema and a TypeScript example",
        "arguments": [{"name": "task", "description": "What you want to do", "required": True}],
    },
    {
        "name": "backend_status",
        "title": "Backend status",
        "description": "Backends with state, tools, latency and calls",
    },
]


def get_prompt(
    view: View,
    index: SearchIndex,
    name: str,
    arguments: Mapping[str, str],
    meaning: Meaning | None = None,
) -> Json:
    """Return the `prompts/get` answer; `meaning` is the cosine of the task of `find_tool` with each tool.

    Raises ResourceNotFound for an unknown name, InvalidRequest for arguments.
    """
    if name == "discover":
        return _message("How to use this gateway", _discover(view))
    if name == "find_tool":
        task = arguments.get("task", "")
        if not task.strip():
            raise InvalidRequest("find_tool needs 'task': what you want to do")
        return _message(f"Tools for: {first_sentence(task)}", _find_tool(view, index, task, meaning))
    if name == "backend_status":
        return _message("Backends now", _backend_status(view))
    known = ", ".join(prompt["name"] for prompt in PROMPTS)
    raise ResourceNotFound(f"there is no prompt '{shorten(visible(name), 80)}'; there are {known}")


def _discover(view: View) -> str:
    tools = view.registry.tools()
    backends = view.registry.backends()
    text = f"This gateway has {counted(len(tools), 'tool')} of {counted(len(backends), 'backend')} right now.\n\n{STEPS}\n"
    if not tools:
        return text + "\nNo backend has listed tools yet; read gatemini://health to see why.\n"
    first = _largest(view)
    task = first_sentence(first.description, 60) or first.name
    name = short_name(first.qualified)
    return (
        f"{text}\nWith the tools of this gateway:\n\n"
        f"Step 1: search_tools with task_description {task!r} finds {name}.\n\n"
        f"Step 2: tool_info with tool_name '{name}' shows its parameters.\n\n"
        f"Step 3 only if needed. Step 4: call_tool_chain with\n\n{_example(view, first)}"
    )


def _largest(view: View) -> Tool:
    """Return a tool with required parameters, of the backend with the most tools: it makes the better example."""
    backend = max(view.registry.backends(), key=lambda name: len(view.registry.backend_tools(name)))
    tools = view.registry.backend_tools(backend)
    return next((t for t in tools if required_parameters(t.input_schema) and t.description), tools[0])


def _find_tool(view: View, index: SearchIndex, task: str, meaning: Meaning | None) -> str:
    found = index.search(task, limit=_CANDIDATES, meaning=meaning, shows=view.shows).hits
    hits = [hit for hit in found if not isinstance(hit.tool, Offer)][:_MATCHES]
    if not hits:
        return f"No tool matches {first_sentence(task)!r}. Try other words with search_tools, or read gatemini://tools.\n"
    rows = "\n".join(
        f"| {i} | {_cell(short_name(h.tool.qualified))} | {_cell(first_sentence(h.tool.description, 120))} |"
        for i, h in enumerate(hits, 1)
    )
    first = view.facts.typed(hits[0].tool)
    return (
        f"| | tool | what it does |\n|---|---|---|\n{rows}\n\n"
        f"The first one, {short_name(first.qualified)}:\n\n{_schema(first, spoken=view.registry.is_spoken(first))}\n\n"
        f"{shorten(visible(first.description, lines=True), _DESCRIPTION_CHARS)}\n\nReady to adapt for call_tool_chain:\n\n"
        f"{_example(view, first)}"
    )


def _schema(tool: Tool, *, spoken: bool) -> str:
    """Return declaration and JSON Schema; where these are too long, the signature and where to read the rest."""
    whole = declaration(tool, spoken=spoken)
    if len(whole) > _SCHEMA_CHARS:
        whole = f"{signature(tool, spoken=spoken)}\n// the whole declaration: gatemini://types/{quote(tool.backend)}\n"
    schema = _json(shown(tool.input_schema))
    if len(schema) > _SCHEMA_CHARS:
        schema = f'"too long to show here; see gatemini://tool/{quote(tool.qualified[:LONGEST_NAME], errors="replace")}"'
    return f"```ts\n{_fenced(whole)}```\n\n```json\n{_fenced(schema)}\n```"


def _example(view: View, tool: Tool) -> str:
    """Return code that calls the tool with a sample value for each parameter, and runs as it is."""
    call = call_of(view.registry, tool)
    values = {variable_name(n): _sample(tool.input_schema, n) for n in required_parameters(tool.input_schema)}
    if call.endswith("(args)"):
        values = {"args": "{}"}
    filled = "".join(f"const {name} = {value};\n" for name, value in values.items())
    return f"```ts\n{_fenced(filled)}const answer = {_fenced(call)};\nreturn answer;\n```\n"


def _sample(schema: Json, name: str) -> str:
    """Return a sample value of the parameter's type, as TypeScript."""
    properties = schema.get("properties")
    here = follow(schema, properties.get(name)) if isinstance(properties, Mapping) else None
    if not isinstance(here, Mapping):
        return "null"
    choices = [here[key] for key in ("default", "const") if key in here]
    choices += [here["enum"][0]] if isinstance(here.get("enum"), list) and here["enum"] else []
    for choice in choices:
        text = js_string(choice) if isinstance(choice, str) else _json(shown(choice))
        if len(text) <= _SAMPLE_CHARS:
            return text
    kind = here.get("type")
    kind = next((k for k in kind if k != "null"), None) if isinstance(kind, list) else kind
    return _SAMPLES.get(kind, "null") if isinstance(kind, str) else "null"


def _json(value: object) -> str:
    return orjson.dumps(value, default=str).decode()


def _backend_status(view: View) -> str:
    rows = "\n".join(
        f"| {_cell(str(r['name']))} | {r['state']} | {'yes' if r['available'] else 'no'} | {r['tools']} "
        f"| {_ms(r['p50_ms'])} | {_ms(r['p95_ms'])} | {r['calls']} |"
        for r in backend_rows(view)
    )
    return (
        "| backend | state | available | tools | p50 ms | p95 ms | calls |\n|---|---|---|---|---|---|---|\n"
        f"{rows}\n\nDetails: gatemini://health\n"
    )


def _ms(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) and value else "-"


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def _fenced(code: str) -> str:
    return code.replace("```", "` ` `")


def _message(description: str, text: str) -> Json:
    return {
        "description": description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }
