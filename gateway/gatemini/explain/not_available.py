"""What scripts elsewhere have and this sandbox has not, and what to write instead."""

from __future__ import annotations

from typing import Final

_NETWORK: Final = "there is no network here"
_FILES: Final = "there are no files here"
_PROCESSES: Final = "there are no processes here"
_SECRETS: Final = "secrets belong in the backend's config"
_PACKAGES: Final = "there are no packages here"
_STORED: Final = "nothing is stored between chains but results: results.save(value)"
_BROWSER: Final = "there is no browser here"
_ARRAYS: Final = f"{_PACKAGES}: use the language's own array methods"
_DATE: Final = f"{_PACKAGES}: use Date"
_GROUPED: Final = "Object.groupBy(list, (x) => x.key)"
_SORTED: Final = "list.toSorted((a, b) => a.key - b.key)"
_SUMMED: Final = "list.reduce((sum, x) => sum + x, 0)"
_UNIQUE: Final = "[...new Set(list)]"
_CALL: Final = (
    'write `await backend.tool({…})`; a tool\'s exact name goes in brackets: backend["get-user"]({…})'
)
_TIMEOUT: Final = (
    "nothing here can be aborted: a chain ends with its `timeout`; race with sleep(ms) to give up earlier"
)

HOST: Final = {
    "require": "there is no require/module system here",
    "module": "there is no module object here; use `return`",
    "exports": "there is no exports object here; use `return`",
    "fetch": _NETWORK,
    "XMLHttpRequest": _NETWORK,
    "WebSocket": _NETWORK,
    "axios": _NETWORK,
    "process": f"there is no process here; {_SECRETS}",
    "Deno": f"there is no Deno here; {_SECRETS}",
    "Bun": f"there is no Bun here; {_SECRETS}",
    "fs": _FILES,
    "path": _FILES,
    "open": _FILES,
    "os": "there is no operating system here",
    "execSync": _PROCESSES,
    "exec": _PROCESSES,
    "Worker": "there are no threads here; Promise.all makes calls side by side",
}
"""What would reach out of the sandbox: name → what is missing."""

SEARCHED: Final = {
    **dict.fromkeys(("require", "module", "fs", "open", "path", "Deno", "Bun"), "read file"),
    **dict.fromkeys(
        ("fetch", "XMLHttpRequest", "WebSocket", "axios", "node-fetch", "undici", "got"), "fetch url"
    ),
    **dict.fromkeys(("http", "https", "net"), "fetch url"),
    **dict.fromkeys(("child_process", "exec", "execSync"), "run command"),
}
"""Name of a global or module → what to search a tool for in its place."""

MODULES: Final = {
    "buffer": "Buffer is a global",
    "crypto": "crypto.randomUUID() and crypto.getRandomValues(…) are globals; hashes belong in a backend's tool",
    "date-fns": _DATE,
    "dayjs": _DATE,
    "dotenv": _SECRETS,
    "lodash": _ARRAYS,
    "moment": _DATE,
    "p-limit": "write Promise.all over all calls: the sandbox keeps the number in flight",
    "path": "join names with `/`",
    "timers": "write `await sleep(ms)`",
    "url": "URL and URLSearchParams are globals",
    "util": "console.log prints any value",
    "uuid": "crypto.randomUUID() is a global",
    "zod": f"{_PACKAGES}: check values with plain code",
}
"""Module → what to write instead of importing it."""

OF_PROCESS: Final = {
    "argv": "there are no arguments: write the values into the code",
    "cwd": _FILES,
    "exit": "`return` ends the code, `throw new Error(…)` ends it as failed",
    "hrtime": "write performance.now()",
    "nextTick": "write queueMicrotask(f)",
    "stdout": "write console.log(…)",
}
"""Member of `process` → what to write instead."""

SUBSTITUTES: Final = {
    "Intl": "there is no Intl here: format numbers and dates by hand (toLocaleString is plain, time zone UTC)",
    "window": f"{_BROWSER}; global names are on globalThis",
    "document": f"{_BROWSER} and no DOM: work on the text itself",
    "DOMParser": f"{_BROWSER} and no DOM: work on the text itself",
    "navigator": _BROWSER,
    "localStorage": _STORED,
    "sessionStorage": _STORED,
    "global": "write globalThis instead of global",
    "print": "write console.log(…)",
    "alert": "write console.log(…)",
    "prompt": "no one can be asked from here: return the question",
    "search_tools": "inside a chain write `await gatemini.search_tools({task_description})`",
    "tool_info": "inside a chain write `await gatemini.tool_info({tool_name})`",
    "list_tools_meta": "inside a chain write `await gatemini.list_tools_meta({})`",
    "call_tool_chain": "this is the chain: write its code as it is",
    "callTool": _CALL,
    "call_tool": _CALL,
    "None": "write null instead of None",
    "True": "write true instead of True",
    "False": "write false instead of False",
    "len": "write list.length",
    "str": "write String(value)",
    "int": "write Math.trunc(Number(value))",
    "float": "write Number(value)",
    "dict": "write { ...object }, or Object.fromEntries(pairs)",
    "sum": f"write {_SUMMED}",
    "max": "write Math.max(...list)",
    "min": "write Math.min(...list)",
    "round": "write Math.round(value)",
    "sorted": f"write {_SORTED}",
    "range": "write Array.from({ length: n }, (_, i) => i)",
    "enumerate": "write list.entries(), or list.map((x, i) => …)",
    "isinstance": "write typeof value, or Array.isArray(value)",
    "args": "only composite tools have args; write the values into the code",
    "_": _ARRAYS,
    "lodash": _ARRAYS,
    "moment": _DATE,
    "dayjs": _DATE,
    "z": f"{_PACKAGES}: check values with plain code",
    "AbortController": _TIMEOUT,
    "AbortSignal": _TIMEOUT,
    "Blob": "keep bytes in a Uint8Array; text becomes bytes with new TextEncoder().encode(text)",
    "ReadableStream": "a tool's result arrives whole; results.chunks(handle) reads a large one in pieces",
    "EventEmitter": "there are no events here: call a function",
}
"""What is only missing, with its substitute."""

METHODS: Final = {
    "append": "list.push(value)",
    "contains": "list.includes(value)",
    "countBy": _GROUPED,
    "count": "list.length, or list.filter(test).length",
    "distinct": _UNIQUE,
    "each": "list.forEach(f), or `for (const x of list)`",
    "extend": "list.push(...values)",
    "first": "list[0]",
    "flatten": "list.flat()",
    "get": "object.key, or object[key]",
    "groupBy": _GROUPED,
    "group_by": _GROUPED,
    "head": "list[0]",
    "isoformat": "date.toISOString()",
    "items": "Object.entries(object)",
    "json": "the value itself: results arrive parsed",
    "last": "list.at(-1)",
    "len": "list.length",
    "lower": "text.toLowerCase()",
    "orderBy": _SORTED,
    "pluck": "list.map((x) => x.key)",
    "select": "list.filter(test)",
    "size": "list.length",
    "sortBy": _SORTED,
    "sort_by": _SORTED,
    "strftime": "date.toISOString().slice(0, 10)",
    "strip": "text.trim()",
    "sum": _SUMMED,
    "text": "the value itself: results arrive as their value",
    "toArray": "the value itself",
    "uniq": _UNIQUE,
    "unique": _UNIQUE,
    "upper": "text.toUpperCase()",
    "where": "list.filter(test)",
}
"""Method of another language or library → what to write instead."""

MEMBERS: Final = {
    "gatemini": (
        "search_tools, tool_info, list_tools_meta",
        "backends are registered by the meta-tools register_manual and deregister_manual, not from inside a chain",
    ),
    "results": ("rows, chunks, load, info, list, save, drop, compact, base64", ""),
    "console": ("log, info, warn, error, debug, table", ""),
}
"""Global → its members, and what else to say of others."""
