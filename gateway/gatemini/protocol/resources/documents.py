"""The `gatemini://` resources, their templates and completion as pure functions of a `View`.

Every address returns (MIME type, text) or raises ResourceNotFound, which says what exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, unquote

from gatemini.backends.status import BackendStatus
from gatemini.discovery.types.identifiers import short_name
from gatemini.discovery.types.schema_reader import parameters
from gatemini.errors import AmbiguousTool, ResourceNotFound, ToolNotFound
from gatemini.model import Json, Offer
from gatemini.protocol.answers.discovery import tool_info
from gatemini.protocol.answers.fitting import fit_names, fit_parts, fit_rows, shown, size_of
from gatemini.protocol.answers.guides import CALL_TOOL_CHAIN, GUIDES, STEPS
from gatemini.protocol.answers.rows import call_of
from gatemini.protocol.resources.listing import (
    SCHEME,
    declarations,
    guide_for_models,
    guide_with_schemas,
    tool_index,
)
from gatemini.protocol.resources.view import (
    DISABLED,
    NOTE_BYTES,
    View,
    as_json,
    backend_names,
    backend_row,
    backend_rows,
    health,
)
from gatemini.text.escape import visible
from gatemini.text.shorten import LINE_CHARS, counted, first_sentence

JSON_TYPE = "application/json"
MARKDOWN = "text/markdown"
TYPESCRIPT = "text/typescript"
RESULT = "result"
HEALTH = "health"
TOOL_KINDS = ("overview", "tools", "llms", "llms-full", "tool", "backend", "types")
"""Kinds that depend on tools: worth a short wait while backends have not listed theirs."""
RECENT = 50
MAX_RECENT = 500
MAX_COMPLETIONS = 100
"""Most values of one completion (the protocol's limit)."""
_NAMES_SHOWN = 20


_STATIC: Mapping[str, tuple[str, str, str]] = {
    "overview": ("Overview", MARKDOWN, "What is behind this gateway and how to use it (about 500 tokens)"),
    "backends": ("Backends", JSON_TYPE, "Backends with state, number of tools and latency"),
    "tools": ("Tool index", JSON_TYPE, "Every tool with one short line, grouped by backend"),
    "recent": ("Recent calls", JSON_TYPE, "The last 50 calls to backends, newest first"),
    "stats": (
        "Statistics",
        JSON_TYPE,
        "Bytes, tokens and calls, and what loading every schema would have cost",
    ),
    HEALTH: ("Health", JSON_TYPE, "Per backend: state, process, memory, repairs, last stderr lines"),
    "llms": ("Guide for models", MARKDOWN, "Names, one line each, naming rules and the four steps"),
    "llms-full": ("Guide with every schema", MARKDOWN, "The same with every TypeScript declaration"),
    "call_tool_chain": ("Writing chains", MARKDOWN, "How to write code for call_tool_chain"),
}
_TEMPLATES: Mapping[str, tuple[str, str, str]] = {
    "tool/{tool_name}": ("Tool", JSON_TYPE, "Description, schemas and declaration of one tool"),
    "backend/{backend_name}": (
        "Backend",
        JSON_TYPE,
        "State of one backend, its tools' names, and repairs made to their list",
    ),
    "backend/{backend_name}/tools": (
        "Tools of a backend",
        JSON_TYPE,
        "The tools of one backend, one line each",
    ),
    "recent/{limit}": ("Recent calls", JSON_TYPE, "The last calls to backends, newest first"),
    "guide/{topic}": ("Guide", MARKDOWN, f"One of: {', '.join(GUIDES)}"),
    "result/{handle}": ("Result", JSON_TYPE, "A stored result from its beginning"),
    "result/{handle}/{offset}": ("Result from a row", JSON_TYPE, "A stored result from a row on"),
    "types/{backend_name}": ("TypeScript", TYPESCRIPT, "TypeScript declarations of one backend"),
}


def list_resources(view: View) -> list[Json]:
    """Return the static resources for `resources/list`; their descriptions hold the present counts."""
    counts = f"{counted(len(view.registry), 'tool')} of {counted(len(backend_names(view)), 'backend')}"
    now = {"tools": f": {counts}", "overview": f": {counts}", "llms-full": f" ({counts})"}
    return [{"uri": SCHEME + path, **_described(path, entry, now)} for path, entry in _STATIC.items()]


def list_templates(view: View) -> list[Json]:
    """Return the templates for `resources/templates/list`; their descriptions name the present arguments."""
    backends = backend_names(view)
    names = f": {_listed(backends)}" if backends else ""
    now = {
        "tool/{tool_name}": f" (of {len(view.registry)})",
        "backend/{backend_name}": names,
        "types/{backend_name}": names,
    }
    return [
        {"uriTemplate": SCHEME + path, **_described(path, entry, now)} for path, entry in _TEMPLATES.items()
    ]


def _described(path: str, entry: tuple[str, str, str], now: Mapping[str, str]) -> Json:
    title, mime, text = entry
    return {"name": path, "title": title, "description": text + now.get(path, ""), "mimeType": mime}


def read_resource(view: View, uri: str) -> tuple[str, str]:
    """Return (MIME type, text) of an address. Raises ResourceNotFound, or ResultGone for a handle."""
    kind, rest = split_address(uri)
    if not rest:
        return _STATIC[kind][1], _READERS[kind](view)
    return _TEMPLATE_READERS[kind](view, rest)


def split_address(uri: str) -> tuple[str, str]:
    """Split an address into (kind, rest), the rest empty for a static one. Raises ResourceNotFound."""
    if not uri.lower().startswith(SCHEME):
        raise _missing(uri, "addresses here begin with gatemini://")
    path = uri[len(SCHEME) :].rstrip("/")
    if path in _READERS:
        return path, ""
    kind, _, rest = path.partition("/")
    if kind not in _TEMPLATE_READERS or not rest:
        raise _missing(uri, f"there are {', '.join(SCHEME + p for p in (*_STATIC, *_TEMPLATES))}")
    return kind, rest


def complete(view: View, argument: str, value: str) -> tuple[list[str], int]:
    """Return (at most 100 values for an argument, those that begin with `value` first; how many there are)."""
    folded = value.lower()
    names = [name for name in _completions(view, argument) if folded in name.lower()]
    names.sort(key=lambda name: not name.lower().startswith(folded))
    return names[:MAX_COMPLETIONS], len(names)


def _completions(view: View, argument: str) -> list[str]:
    if argument == "tool_name":
        return [short_name(tool.qualified) for tool in view.registry.tools()]
    if argument == "backend_name":
        return backend_names(view)
    if argument == "topic":
        return list(GUIDES)
    if argument == "handle":
        return list(view.results.handles())
    return []


# ---- static resources --------------------------------------------------------------------------------


def _overview(view: View) -> str:
    tools = view.registry.tools()
    counts = sorted(
        ((name, len(view.registry.backend_tools(name))) for name in backend_names(view)),
        key=lambda entry: (-entry[1], entry[0]),
    )
    states: dict[str, str] = dict.fromkeys(view.disabled, DISABLED)
    states |= {status.name: str(status.state) for status in view.statuses}
    lines = [
        f"- {visible(name)}: {counted(count, 'tool')}{_state_note(states.get(name))}"
        for name, count in counts[:_NAMES_SHOWN]
    ]
    if len(counts) > _NAMES_SHOWN:
        rest = sum(count for _, count in counts[_NAMES_SHOWN:])
        lines.append(f"- and {len(counts) - _NAMES_SHOWN} more with {rest} tools (gatemini://backends)")
    example = f"\nFor example: `{call_of(view.registry, tools[0])}`\n" if tools else ""
    return (
        f"# Gatemini\n\n{counted(len(tools), 'tool')} of {counted(len(counts), 'backend')}, reached through seven tools.\n\n"
        f"## Steps\n{STEPS}\n{example}\n## Backends\n" + "\n".join(lines) + "\n\n## Read on\n"
        "gatemini://tools (index), gatemini://guide/call_tool_chain, gatemini://guide/discovery, "
        "gatemini://guide/results, gatemini://types/{backend_name}, gatemini://health\n"
    )


def _state_note(state: str | None) -> str:
    return f" ({state})" if state is not None and str(state) != "healthy" else ""


def _backends(view: View) -> str:
    rows = backend_rows(view)
    kept = fit_names(rows, view.room.plain - NOTE_BYTES)
    body: Json = {"backends": kept}
    if len(kept) < len(rows):
        body["note"] = f"first {len(kept)} of {len(rows)}: gatemini://backend/{{backend_name}} has each"
    return as_json(body)


def _tools(view: View) -> str:
    return as_json(tool_index(view.registry.tools(), view.catalog_bytes, view.room.plain))


# ---- templates ---------------------------------------------------------------------------------------


def _tool(view: View, rest: str) -> tuple[str, str]:
    name = unquote(rest)
    try:
        return JSON_TYPE, as_json(
            tool_info(
                view.registry,
                {"tool_name": name, "detail": "full"},
                facts=view.facts,
                room=view.room.plain,
            )
        )
    except (ToolNotFound, AmbiguousTool) as error:
        raise ResourceNotFound(error.message + (f". {error.hint}" if error.hint else "")) from error


def _backend(view: View, rest: str) -> tuple[str, str]:
    encoded, _, part = rest.partition("/")
    name = unquote(encoded)
    if name not in backend_names(view):
        error = view.registry.backend_missing(name, backend_names(view))
        raise ResourceNotFound(error.message + (f". {error.hint}" if error.hint else ""))
    tools = view.registry.backend_tools(name)
    if part == "tools":
        rows = [
            {"name": short_name(t.qualified), "description": first_sentence(t.description, LINE_CHARS)}
            for t in tools
        ]
        kept, cut = fit_rows(rows, view.room.plain) if rows else (rows, False)
        body: Json = {"backend": visible(name), "tools": kept}
        if len(kept) < len(rows):
            body["note"] = f"first {len(kept)} of {len(rows)} tools: list_tools_meta names all"
        elif cut:
            body["note"] = "descriptions are shortened: tool_info has them"
        return JSON_TYPE, as_json(body)
    if part:
        raise _missing(f"{SCHEME}backend/{rest}", f"there is {SCHEME}backend/{quote(name)}/tools")
    status = next((s for s in view.statuses if s.name == name), None)
    row = backend_row(view, name, status)
    if status is not None and status.repairs:
        repairs = [visible(repair) for repair in status.repairs]
        row["repairs"] = fit_names(repairs, view.room.plain // 4)
    row |= _said(view, name, status)
    names = [short_name(tool.name) for tool in tools]
    row["tool_names"] = fit_names(names, view.room.plain - size_of(row) - NOTE_BYTES)
    if len(row["tool_names"]) < len(names):
        row["note"] = f"first {len(row['tool_names'])} of {len(names)} names: list_tools_meta has all"
    return JSON_TYPE, as_json(row)


def _said(view: View, name: str, status: BackendStatus | None) -> Json:
    """Return what a backend says of itself: instructions, resources, prompts, in at most half of the room."""
    said: Json = {}
    if text := view.facts.instructions(name):
        said["instructions"] = visible(text, lines=True)
    for kind in ("resource", "prompt"):
        offers = [o for o in (status.offers if status is not None else ()) if o.kind == kind]
        offers = [o for o in offers if view.shows is None or view.shows(o)]
        if offers:
            said[f"{kind}s"] = [_offer(offer) for offer in offers]
    for part in fit_parts(said, tuple(said), view.room.plain // 2):
        said[f"{part}_note"] = "cut: in a chain, listResources() has all" if part == "resources" else "cut"
    return said


def _offer(offer: Offer) -> Json:
    where = {"uri": visible(offer.uri)} if offer.uri else {}
    arguments = [short_name(name) for name in parameters(offer.input_schema)]
    return {
        "name": short_name(offer.name),
        **where,
        "description": first_sentence(offer.description, LINE_CHARS),
        **({"arguments": arguments} if arguments else {}),
    }


def _recent(view: View, rest: str) -> tuple[str, str]:
    if not rest.isascii() or not rest.isdecimal() or len(rest) > 9 or int(rest) < 1:
        raise _missing(f"{SCHEME}recent/{rest}", f"the limit is a number from 1 to {MAX_RECENT}")
    return JSON_TYPE, _calls(view, min(int(rest), MAX_RECENT))


def _calls(view: View, limit: int) -> str:
    """Return the last calls, as many as the client takes."""
    calls = shown([call for call in view.numbers.recent(limit, view.own) if call["tool"] not in view.hidden])
    kept = fit_names(calls, view.room.plain - NOTE_BYTES)
    body: Json = {"recent": kept}
    if len(kept) < len(calls):
        body["note"] = (
            f"the last {len(kept)} of {len(calls)} calls: `gatemini recent --limit {len(calls)}` in a terminal has all"
        )
    return as_json(body)


def _stats(view: View) -> str:
    """Return all counters, and the last single answers, as many as the client takes."""
    stats = view.numbers.stats(view.own)
    if view.own is not None:
        known = {status.name for status in view.statuses}
        stats["backends"] = {name: times for name, times in stats["backends"].items() if name in known}
    answers = stats["per_call"]
    if size_of(stats) > view.room.plain:
        room = view.room.plain - size_of({**stats, "per_call": []}) - NOTE_BYTES
        stats["per_call"] = fit_names(answers[::-1], room)[::-1]
        stats["note"] = (
            f"per_call has the last {len(stats['per_call'])} of {len(answers)}: `gatemini stats --json` in a terminal has all"
        )
    return as_json(stats)


def _guide(view: View, rest: str) -> tuple[str, str]:
    text = GUIDES.get(unquote(rest))
    if text is None:
        raise _missing(f"{SCHEME}guide/{rest}", f"topics: {', '.join(GUIDES)}")
    return MARKDOWN, text


def _result(view: View, rest: str) -> tuple[str, str]:
    handle, _, offset = rest.partition("/")
    offset = unquote(offset)
    if offset and not re.fullmatch(r"[0-9]{1,12}(:[0-9]{1,9})?", offset):
        raise _missing(
            f"{SCHEME}result/{rest}", "the offset is a row number from 0, or what next_offset gave"
        )
    at: int | str | None = offset if ":" in offset else int(offset) if offset else None
    return view.results.read(unquote(handle), at, view.redact, view.room)


def _types(view: View, rest: str) -> tuple[str, str]:
    name = unquote(rest)
    tools = view.registry.backend_tools(name)
    if not tools:
        down = {s.name: f"{s.state}: {s.error}" for s in view.statuses if s.error}
        down |= {off: f"{DISABLED}: {why}" for off, why in view.disabled.items()}
        known = f"backends with tools: {_listed(view.registry.backends()) or 'none'}"
        raise _missing(
            f"{SCHEME}types/{rest}", f"{visible(name)} is {visible(down[name])}" if name in down else known
        )
    tools = [view.facts.typed(tool) for tool in tools]
    return TYPESCRIPT, declarations(tools, view.room.plain, spoken=view.registry.is_spoken(tools[0]))


_READERS: Mapping[str, Callable[[View], str]] = {
    "overview": _overview,
    "backends": _backends,
    "tools": _tools,
    "recent": lambda view: _calls(view, RECENT),
    "stats": _stats,
    HEALTH: health,
    "llms": lambda view: guide_for_models(view.registry.tools(), view.room.plain),
    "llms-full": lambda view: guide_with_schemas(view.registry, view.room.plain),
    "call_tool_chain": lambda view: CALL_TOOL_CHAIN,
}
_TEMPLATE_READERS: Mapping[str, Callable[[View, str], tuple[str, str]]] = {
    "tool": _tool,
    "backend": _backend,
    "recent": _recent,
    "guide": _guide,
    RESULT: _result,
    "types": _types,
}


def _missing(uri: str, there_is: str) -> ResourceNotFound:
    return ResourceNotFound(f"there is no resource '{visible(uri[:200])}'; {there_is}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(visible(name) for name in names[:_NAMES_SHOWN]) + more
