"""`results.*` inside a chain: the guest's messages answered from the session's result store.

Above: script.py. Below: output/results.py.
"""

from __future__ import annotations

from typing import Any

import anyio

from gatemini.chain.outcome import Outcome
from gatemini.errors import InvalidRequest
from gatemini.output.compact import compact
from gatemini.output.jsontext import dump
from gatemini.output.results import ResultStore
from gatemini.types.wording import shorten

KEEP = "keep"
"""What the guest says by itself, for a long typed array in the returned value: its type and its bytes in base64."""

METHODS = ("rows", "chunk", "load", "info", "list", "save", "drop", "compact", "base64")
"""What `results` offers; `chunks` is an async iterator in the guest over `chunk`."""


OPTIONS = {
    "rows": ("offset", "limit"),
    "chunk": ("offset", "rows"),
    "save": ("label",),
    "compact": ("fields", "budget_tokens"),
}
"""What the second argument may say."""

OPTION_CHARS = 60
"""Characters of a wrong option that its error repeats."""

READS_ALL = ("load", "chunk", "base64", "rows", "info", "save", "compact")
"""Methods that may read and write megabytes (the first look at a result finds its rows): in a worker thread."""


async def answer_results_call(method: str, arguments: Any, store: ResultStore) -> Outcome:
    """The value of one `results.<method>(…)`; raises ResultGone for a handle that is not there."""
    given = list(arguments) if isinstance(arguments, list) else [arguments]
    if method == "load":
        text = await anyio.to_thread.run_sync(store.json_text, _handle(method, given))
        return Outcome(True, None, text=text.decode("utf-8", "replace"))
    if method == KEEP:
        return Outcome(True, await anyio.to_thread.run_sync(_keep, given, store))
    if method in READS_ALL:
        return Outcome(True, await anyio.to_thread.run_sync(_answer, method, given, store))
    return Outcome(True, _answer(method, given, store))


def _answer(method: str, given: list[Any], store: ResultStore) -> Any:
    if method == "list":
        return store.list()
    options = _options(method, given)
    if method == "save":
        if not given:
            raise InvalidRequest(
                "results.save takes a value first", hint="write results.save(value, {label})"
            )
        return store.info(store.save(given[0], label=_label(options)))
    if method == "compact":
        return compact(
            given[0] if given else None,
            fields=options.get("fields"),
            budget_tokens=options.get("budget_tokens"),
        )
    handle = _handle(method, given)
    match method:
        case "rows":
            return store.rows(handle, offset=_whole(options, "offset", 0), limit=_whole(options, "limit", 40))
        case "chunk":
            return store.chunk(
                handle, offset=_whole(options, "offset", 0), rows=_whole(options, "rows", 1000)
            )
        case "info":
            return store.info(handle)
        case "drop":
            return store.drop(handle)
        case "base64":
            return store.base64(handle)
    raise InvalidRequest(f"results.{method} does not exist", hint=f"results has: {', '.join(METHODS)}")


def _keep(given: list[Any], store: ResultStore) -> str:
    match given:
        case [str(name), str(data)]:
            return store.save_array(name, data)
    raise InvalidRequest("results.keep takes the type of an array and its bytes in base64")


def _handle(method: str, given: list[Any]) -> str:
    first = given[0] if given else None
    if isinstance(first, dict):  # an info object or an image value may stand for its handle
        first = first.get("handle") or first.get("ref")
    if not isinstance(first, str) or not first:
        raise InvalidRequest(
            f"results.{method} takes a handle first", hint=f'write results.{method}("res_1a2b3c4d")'
        )
    return first


def _options(method: str, given: list[Any]) -> dict[str, Any]:
    """The second argument; what would be passed over in silence is an error that says what is taken."""
    options = given[1] if len(given) > 1 else None
    known = OPTIONS.get(method, ())
    if options is None or not known:
        return {}
    takes = f"{{{', '.join(known)}}}"
    if not isinstance(options, dict):
        raise InvalidRequest(
            f"results.{method} takes its options as an object, not {shorten(dump(options), OPTION_CHARS)}",
            hint=f"write results.{method}(…, {takes})",
        )
    if unknown := [key for key in options if key not in known]:
        raise InvalidRequest(
            f"results.{method} has no option {shorten(dump(unknown[0]), OPTION_CHARS)}; it has: {', '.join(known)}"
        )
    return options


def _label(options: dict[str, Any]) -> str | None:
    label = options.get("label")
    return label if isinstance(label, str) else None


def _whole(options: dict[str, Any], key: str, default: int) -> int:
    value = options.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise InvalidRequest(f"{key} must be a whole number from 0, not {shorten(dump(value), OPTION_CHARS)}")
    return int(value)
