"""Texts of `gatemini://guide/{topic}`, `gatemini://call_tool_chain` and the head of `gatemini://llms`, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

STEPS = """1. `search_tools({task_description})` finds tools by what you want to do; the best have types, `args` and `returns`, the first a `call`.
2. `tool_info({tool_name})` shows parameters and a one-line signature, where these do not say enough.
3. `tool_info({tool_name, detail: "full"})` shows the schemas, when brief is not enough.
4. `call_tool_chain({code})` runs TypeScript that calls the tools and gives back what it returns."""

NAMES = """- A tool is `backend.tool`. The name alone works where exactly one backend has it.
- In code each backend is a global: `await exa.web_search_exa({query})`.
- Characters no identifier may hold become `_` in a global (`files-eu` → `files_eu`); a leading digit gets `_` in front.
- A tool's exact name always works in brackets: `files_eu["get-user"]({id})`.
- A backend named like a word of JavaScript or a standard global gets a trailing `_` (`fetch` → `fetch_`).
- `__backends["name"]` reaches any backend by its exact name."""

CALL_TOOL_CHAIN = f"""# call_tool_chain

Send TypeScript (or JavaScript) as `code`. It runs in a sandbox without files, network or modules; tools are the only \
way out. Only the value it returns comes back.

```ts
const issues = await github.list_issues({{owner: "o", repo: "r", state: "open"}});
const old = issues.filter((i) => i.created_at < "2026-01-01");
const details = await Promise.all(old.map((i) => github.get_issue({{owner: "o", repo: "r", issue_number: i.number}})));
return details.map((d) => ({{n: d.number, title: d.title, comments: d.comments}}));
```
(github stands for any backend search_tools found.)

## What to send
- Statements with `return`, or a last expression as the value, or `export default async function main() {{…}}`.
- One call: `await exa.web_search_exa({{query: "mcp"}})`, or `{{"tool": "exa.web_search_exa", "arguments": {{"query": "mcp"}}}}`; \
an array of such objects runs them at once.
- `timeout` (milliseconds, 30000), `max_output_size` (characters, from 100), `intent` (what you look for in a large result).

## Names
{NAMES}

## Values
- A result is structured data where the tool gives it, else its text, parsed if it is a JSON object or array. It may be \
a string that only looks like a list: text of a table, a Python literal.
- Where neither `returns` nor the signature says what a tool gives, return one result and look before using its members. \
`returns (seen)` and `/* seen */` are types of earlier results.
- A failed tool throws `ToolError` with `message`, `tool`, `backend`, and `code` or `structured` if any.
- `backend.tool.raw(args)` gives the whole MCP result.
- `backend.listResources()`, `backend.readResource(uri)` and `backend.getPrompt(name, args)` use what a backend has beside \
tools.
- Images and audio are small objects with a `ref`; returning one shows it.

## Inside
`console`, `setTimeout`, `sleep(ms)`, `structuredClone`, `URL`, `TextEncoder`, `atob`, `crypto.randomUUID`, `results` \
(large results), `gatemini.search_tools({{…}})` and `gatemini.tool_info({{…}})` (find and call in one chain), \
`__getToolInterface("backend.tool")`.

## When it fails
The answer says where (line, column), why, what would be right, and which calls were already made, so that nothing is \
done twice.
"""

DISCOVERY = f"""# Finding tools

{STEPS}

- Say the task in your own words, in any language; exact names, fragments (`getrepo`) and misspellings work too.
- `limit` (10, up to 50), `tag` (only tools with this tag), `brief: false` (whole descriptions and tags).
- A row with `kind` is a resource or prompt of a backend: its `call` reads it. `instructions` is what a backend says of its \
use; `tool_info` in full has all of it.
- `try_also` names terms that tell a backend apart: search again with them when nothing fits.
- `did_you_mean` shows how a misspelt query was read.
- `list_tools_meta` pages through all names; `gatemini://tools` is the index with one line each.

## Names
{NAMES}
"""

RESULTS = """# Large results

An answer that would not fit is shortened, and a footer names a handle: `res_1a2b3c4d`. Nothing is lost. Read on:

- In a chain: `await results.rows(handle, {offset, limit})` (at most 40 rows), `await results.load(handle)` (everything, for code \
to filter and add up), `results.info(handle)`, `results.list()`, `results.chunks(handle, {rows})` \
(an async iterator over all of it; a row too large for code comes in pieces).
- As a resource: `gatemini://result/{handle}` and `gatemini://result/{handle}/{offset}`, the offset being `next_offset`.
- `results.save(value, {label})` keeps a value for a later chain; `results.drop(handle)` forgets it.

Handles belong to this session and last an hour without use. Better still: filter and count inside the chain, and \
return only the answer.
"""

GUIDES: Mapping[str, str] = {"call_tool_chain": CALL_TOOL_CHAIN, "discovery": DISCOVERY, "results": RESULTS}
"""Topic → text."""

FOR_TOOLS: Mapping[str, tuple[str, ...]] = {
    "call_tool_chain": (CALL_TOOL_CHAIN, RESULTS),
    "search_tools": (DISCOVERY,),
    "tool_info": (DISCOVERY,),
    "list_tools_meta": (DISCOVERY,),
}
"""Meta-tool → guides that its full `tool_info` has: many agents cannot read resources."""
