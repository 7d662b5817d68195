"""The server instructions: how to use the gateway, in four steps and one example.

Sent in both the `initialize` and the `server/discover` answer. Made from facts that are stable for the connection, so
that prompt caches keep hitting; under 2,048 characters with the important part first. The model pays for them at every
turn, so they do not repeat the tools' descriptions.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatemini.text.shorten import counted

_STEPS = """This gateway holds {count}. They are not in your tool list: find them here and call them in TypeScript.

1. search_tools({{task_description}}): names, one sentence; types of the best (`args`, `returns`), a `call` to paste.
2. tool_info({{tool_name}}): a one-line signature, where these do not say enough.
3. tool_info({{tool_name, detail: "full"}}): schemas; only if you are about to call it and brief was not enough.
4. call_tool_chain({{code}}): only what the code returns comes back. Several calls go in one chain:
```ts
const found = await exa.web_search_exa({{query: "MCP servers"}});
const pages = await Promise.all(found.results.slice(0, 3).map(r => web.fetch({{url: r.url}})));
return pages.map(p => p.title);
```
(exa and web stand for backends you find.)

Names: backend.tool, or the tool's name alone where only one backend has it. Characters no identifier may have become \
_ in a backend's global; a tool's exact name goes in brackets: files_eu["get-user"]({{}}).
A result is an object or array, already parsed, or a string. Without `returns` its shape is unknown: return one result \
first and look, then write the code that uses its members. `returns (seen)` is what earlier results looked like.
A failed call throws ToolError.
A shortened answer names a handle: `await results.load("res_...")` in the next chain gives all of it, \
`await results.rows("res_...", {{offset, limit}})` some rows.
Resources and prompts of backends are found too; `call` says how to use them.
More: tool_info({{tool_name: "call_tool_chain", detail: "full"}})"""


def instructions(inventory: Sequence[tuple[str, int]] = ()) -> str:
    """Return the instructions with the counts of `inventory`: (name, tools), as known when the connection began.

    The names are listed in the description of `search_tools` only: the model pays for both at every turn.
    """
    tools = sum(count for _, count in inventory)
    if not inventory:
        count = "the tools of several backends"
    else:
        backends = counted(len(inventory), "backend")
        # None known yet: the backends are still connecting, which differs from having none.
        count = f"{counted(tools, 'tool')} of {backends}" if tools else f"the tools of {backends}"
    return _STEPS.format(count=count)
