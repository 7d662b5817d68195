"""The server instructions: how to use the gateway, in four steps and one example (spec 1.2).

Sent in both the `initialize` and the `server/discover` answer. Made from facts that stay for the connection, so
that prompt caches keep hitting; at most 2,048 characters with the important part first. Above: `surface.py`.
Below: `types/`.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatemini.server.budgets import DESCRIPTION_CHARS
from gatemini.types.wording import counted, one_line, shorten

_STEPS = """This gateway holds {count}. They are not in your tool list: find them here and call them in TypeScript.

1. search_tools({{task_description}}): short results with a `call` to paste.
2. tool_info({{tool_name}}): parameters and a one-line signature.
3. tool_info({{tool_name, detail: "full"}}): schemas; only if you are about to call it and brief was not enough.
4. call_tool_chain({{code}}): TypeScript that calls the tools. Only what it returns comes back to you.

Each backend is a global in the code. Combine calls in one chain instead of one chain per call:
```ts
const found = await exa.web_search_exa({{query: "MCP servers"}});
const pages = await Promise.all(found.results.slice(0, 3).map(r => web.fetch({{url: r.url}})));
return pages.map(p => p.title);
```
(exa and web stand for backends you find.)

Names: a tool is backend.tool; the name alone works where only one backend has it. Characters no identifier may have \
become _ in a backend's global; a tool's exact name goes in brackets: files_eu["get-user"]({{}}). search_tools shows \
the right spelling.
Values: a result is an object, array or string, already parsed. A failed call throws ToolError.
Large results are shortened; the answer names a handle such as res_1a2b3c4d. Read on in a chain with \
results.rows(handle, {{offset, limit}}) or results.load(handle), or read gatemini://result/{{handle}}.
A single call may also be sent as {{"tool": "backend.tool", "arguments": {{}}}}.
More: read gatemini://overview or gatemini://guide/call_tool_chain.{backends}"""


def instructions(inventory: Sequence[tuple[str, int]] = ()) -> str:
    """The text, with the backends of `inventory` ((name, tools), as known when the connection began)."""
    tools = sum(count for _, count in inventory)
    if not inventory:
        count = "the tools of several backends"
    else:
        backends = counted(len(inventory), "backend")
        # None known yet: the backends are still connecting, which is not the same as having nothing.
        count = f"{counted(tools, 'tool')} of {backends}" if tools else f"the tools of {backends}"
    text = _STEPS.format(count=count, backends="")
    ordered = sorted(inventory, key=lambda entry: (-entry[1], entry[0]))
    names = ", ".join(shorten(one_line(name), 40) for name, _ in ordered)
    room = DESCRIPTION_CHARS - len(text) - len("\nBackends: .")
    if names and room > 40:
        text = _STEPS.format(count=count, backends=f"\nBackends: {_fitting(names, room)}.")
    return shorten(text, DESCRIPTION_CHARS)


def _fitting(names: str, room: int) -> str:
    if len(names) <= room:
        return names
    cut = names[: room - 5].rpartition(", ")[0]
    return f"{cut}, ..." if cut else "..."
