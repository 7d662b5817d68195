"""What scripts elsewhere have and this sandbox has not, and what to write instead.

Data only. Above: names.py. Below: nothing.
"""

from __future__ import annotations

from typing import Final

HOST: Final = {
    "require": "there is no require/module system here",
    "module": "there is no module object here; use `return`",
    "exports": "there is no exports object here; use `return`",
    "fetch": "there is no network here",
    "XMLHttpRequest": "there is no network here",
    "WebSocket": "there is no network here",
    "axios": "there is no network here",
    "process": "there is no process here; secrets belong in the backend's config",
    "Deno": "there is no Deno here; secrets belong in the backend's config",
    "Bun": "there is no Bun here; secrets belong in the backend's config",
    "fs": "there are no files here",
    "path": "there are no files here",
    "os": "there is no operating system here",
    "open": "there are no files here",
    "__dirname": "there are no files here",
    "__filename": "there are no files here",
    "EventSource": "there is no network here",
    "Request": "there is no network here",
    "Response": "there is no network here",
    "Headers": "there is no network here",
    "FormData": "there is no network here",
    "http": "there is no network here",
    "https": "there is no network here",
    "net": "there is no network here",
    "child_process": "there are no processes here",
    "exec": "there are no processes here",
    "execSync": "there are no processes here",
    "spawn": "there are no processes here",
    "Worker": "there are no threads here; Promise.all makes calls side by side",
    "SharedArrayBuffer": "there are no threads here, and no shared memory",
    "Atomics": "there are no threads here, and no shared memory",
    "WebAssembly": "there is no WebAssembly in here",
    "readFile": "there are no files here",
    "readFileSync": "there are no files here",
    "writeFileSync": "there are no files here",
}
"""What would reach out of the sandbox: name → what is not here."""

SEARCHED: Final = {
    "require": "read file",
    "module": "read file",
    "fetch": "fetch url",
    "XMLHttpRequest": "fetch url",
    "WebSocket": "fetch url",
    "axios": "fetch url",
    "node-fetch": "fetch url",
    "undici": "fetch url",
    "got": "fetch url",
    "fs": "read file",
    "open": "read file",
    "path": "read file",
    "Request": "fetch url",
    "Response": "fetch url",
    "EventSource": "fetch url",
    "http": "fetch url",
    "https": "fetch url",
    "net": "fetch url",
    "child_process": "run command",
    "exec": "run command",
    "execSync": "run command",
    "spawn": "run command",
    "readFile": "read file",
    "readFileSync": "read file",
    "writeFileSync": "write file",
}
"""What to search a tool for in its place."""

_NO_EVENTS: Final = "there are no events here: call a function"
_NO_PACKAGES: Final = "there are no packages here"

MODULES: Final = {
    "assert": "write `if (!ok) throw new Error(…)`",
    "async_hooks": _NO_EVENTS,
    "buffer": "Buffer is a global",
    "crypto": "crypto.randomUUID() and crypto.getRandomValues(…) are globals; hashes belong in a backend's tool",
    "dotenv": "secrets belong in the backend's config",
    "events": _NO_EVENTS,
    "lodash": f"{_NO_PACKAGES}: use the language's own array methods",
    "moment": f"{_NO_PACKAGES}: use Date",
    "date-fns": f"{_NO_PACKAGES}: use Date",
    "dayjs": f"{_NO_PACKAGES}: use Date",
    "p-limit": "write Promise.all over all calls: the sandbox keeps the number in flight",
    "p-map": "write Promise.all over all calls: the sandbox keeps the number in flight",
    "path": "join names with `/`",
    "perf_hooks": "performance.now() is a global",
    "readline": "nobody can be asked from here: return the question",
    "timers": "write `await sleep(ms)`",
    "url": "URL and URLSearchParams are globals",
    "util": "console.log prints any value",
    "uuid": "crypto.randomUUID() is a global",
    "worker_threads": "Promise.all makes calls side by side",
    "zod": f"{_NO_PACKAGES}: check values with plain code",
}
"""Module → what to write instead of importing it; others are searched for as SEARCHED says."""

OF_PROCESS: Final = {
    "argv": "there are no arguments: write the values into the code",
    "cwd": "there are no files here",
    "exit": "`return` ends the code, `throw new Error(…)` ends it as failed",
    "exitCode": "`throw new Error(…)` ends the code as failed",
    "hrtime": "write performance.now()",
    "memoryUsage": "what a chain may use is fixed by the gateway's configuration",
    "nextTick": "write queueMicrotask(f)",
    "on": "catch errors with try and catch",
    "stderr": "write console.error(…)",
    "stdin": "nobody can be asked from here: write the values into the code",
    "stdout": "write console.log(…)",
    "uptime": "write performance.now()",
}
"""Member of `process` → what to write instead."""

SUBSTITUTES: Final = {
    "Intl": "there is no Intl here: format numbers and dates by hand (toLocaleString is plain, time zone UTC)",
    "window": "there is no browser here; global names are on globalThis",
    "document": "there is no browser here and no DOM: work on the text itself",
    "localStorage": "nothing is stored between chains but results: results.save(value)",
    "global": "write globalThis instead of global",
    "print": "write console.log(…)",
    "search_tools": "inside a chain write `await gatemini.search_tools({task_description})`",
    "tool_info": "inside a chain write `await gatemini.tool_info({tool_name})`",
    "list_tools_meta": "inside a chain write `await gatemini.list_tools_meta({})`",
    "call_tool_chain": "this is the chain: write its code as it is",
    "callTool": 'write `await backend.tool({…})`; a tool\'s exact name goes in brackets: backend["get-user"]({…})',
    "call_tool": 'write `await backend.tool({…})`; a tool\'s exact name goes in brackets: backend["get-user"]({…})',
    "None": "write null instead of None",
    "True": "write true instead of True",
    "False": "write false instead of False",
    "nil": "write null instead of nil",
    "len": "write list.length",
    "str": "write String(value)",
    "dict": "write an object literal: { key: value }",
    "lambda": "write (x) => …",
    "args": "only composite tools have args; write the values into the code",
    "lodash": f"{_NO_PACKAGES}: use the language's own array methods",
    "_": f"{_NO_PACKAGES}: use the language's own array methods",
    "z": f"{_NO_PACKAGES}: check values with plain code",
    "AbortController": "nothing here can be aborted: a chain ends with its `timeout`; race with sleep(ms) to give up earlier",
    "AbortSignal": "nothing here can be aborted: a chain ends with its `timeout`; race with sleep(ms) to give up earlier",
    "Blob": "keep bytes in a Uint8Array; text becomes bytes with new TextEncoder().encode(text)",
    "File": "keep bytes in a Uint8Array; text becomes bytes with new TextEncoder().encode(text)",
    "FileReader": "keep bytes in a Uint8Array; bytes become text with new TextDecoder().decode(bytes)",
    "ReadableStream": "there are no streams here: a tool's result arrives whole; results.chunks(handle) reads a large one in pieces",
    "sessionStorage": "nothing is stored between chains but results: results.save(value)",
    "indexedDB": "nothing is stored between chains but results: results.save(value)",
    "navigator": "there is no browser here",
    "location": "there is no browser here; new URL(text) takes an address apart",
    "alert": "write console.log(…)",
    "prompt": "nobody can be asked from here: return the question",
    "self": "write globalThis instead of self",
    "DOMParser": "there is no browser here and no DOM: work on the text itself",
    "Event": _NO_EVENTS,
    "EventTarget": _NO_EVENTS,
    "EventEmitter": _NO_EVENTS,
    "requestAnimationFrame": "write setTimeout(f, 0)",
    "requestIdleCallback": "write setTimeout(f, 0)",
    "util": f"{_NO_PACKAGES}: console.log prints any value",
    "moment": f"{_NO_PACKAGES}: use Date",
    "dayjs": f"{_NO_PACKAGES}: use Date",
}
"""What is only missing, with its substitute."""

MEMBERS: Final = {
    "gatemini": (
        "search_tools, tool_info, list_tools_meta",
        "backends are registered by the meta-tools register_manual and deregister_manual, not from inside a chain",
    ),
    "results": ("rows, chunks, load, info, list, save, drop, compact, base64", ""),
    "console": ("log, info, warn, error, debug, table", ""),
}
"""Global → its members, and what else to say of others."""
