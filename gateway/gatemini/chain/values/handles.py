"""`results.*` inside a chain: the guest's messages answered from the session's result store."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import anyio

from gatemini.chain.replay.outcome import Outcome
from gatemini.chain.values.integers import with_wide_integers
from gatemini.errors import InvalidRequest
from gatemini.model import Json
from gatemini.output.compact import compact
from gatemini.output.json.json_text import dump
from gatemini.output.store.entry import ADDRESS, Elsewhere
from gatemini.output.store.request_checks import GIVEN_CHARS, NULL_MAY_BE
from gatemini.output.store.request_checks import given as told
from gatemini.output.store.results import CHUNK_ROWS, MAX_ROWS, ResultStore

KEEP = "keep"
"""What the guest says by itself, for a long typed array in the returned value: its type and its bytes in base64."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "rows": ("handle", "offset", "limit"),
    "chunk": ("handle", "rows", "offset"),
    "load": ("handle",),
    "info": ("handle",),
    "drop": ("handle",),
    "base64": ("handle",),
    "list": (),
    "save": ("value", "label"),
    "compact": ("rows", "fields", "budget_tokens"),
}
"""What each method takes: its first argument, and what the second one, an object, may say. `chunks` is an async iterator
in the guest over `chunk`."""

NOT_FINITE = "NaN or Infinity of a typed array became null"


async def answer_results_call(method: str, arguments: Any, store: ResultStore, most: int) -> Outcome:
    """The value of one `results.<method>(…)`, of rows no more than `most` bytes.

    Raises InvalidRequest for arguments it does not take, ResultGone for a handle that is not there.
    """
    given = list(arguments) if isinstance(arguments, list) else [arguments]
    if method == KEEP:
        return Outcome(True, await anyio.to_thread.run_sync(_keep, given, store))
    if method not in TAKES:
        raise InvalidRequest(f"results.{method} does not exist", hint=f"results has: {', '.join(TAKES)}")
    options = _options(method, given)
    replicas = store.replicas
    if replicas is not None:
        await (replicas.look() if method == "list" else _fetch(method, given, replicas))
    # Most methods may read and write megabytes: the first look at a result finds its rows.
    return await anyio.to_thread.run_sync(_answer, method, given, options, store, most)


async def _fetch(method: str, given: list[Any], replicas: Elsewhere) -> None:
    if TAKES[method][:1] == ("handle",):
        await replicas.fetch(_handle(method, given))


def _answer(method: str, given: list[Any], options: dict[str, Any], store: ResultStore, most: int) -> Outcome:
    match method:
        case "list":
            return _written(store.list())
        case "save":
            value = with_wide_integers(given[0], float)
            return _written(store.info(store.save(value, label=_label(options))))
        case "compact":
            return _written(_compacted(given[0] if given else None, options))
    handle = _handle(method, given)
    match method:
        case "load":
            facts = store.blob_facts(handle)
            if facts is not None and facts[1].startswith(("image/", "audio/")):
                size, mime = facts
                head = {"type": mime.partition("/")[0], "mimeType": mime, "bytes": size, "ref": handle}
                return Outcome(True, head)
            data = store.json_text(handle)
            lost = b"null" in data and store.is_array(handle)
            return Outcome(True, None, (NOT_FINITE,) if lost else (), text=data.decode("utf-8", "replace"))
        case "rows":
            offset, limit = options.get("offset", 0), options.get("limit", MAX_ROWS)
            return _with_note(store.rows(handle, offset, limit, most=most), store.not_rows(handle))
        case "chunk":
            offset, rows = options.get("offset", 0), options.get("rows", CHUNK_ROWS)
            return _with_note(store.chunk(handle, offset, rows, most=most))
        case "info":
            return _written(store.info(handle))
        case "drop":
            return _written(store.drop(handle))
    return _written(store.blob(handle)[0])


def _written(value: Any, *notes: str) -> Outcome:
    """A value as text in which a double stays one: as JavaScript writes it, 2 ** 60 is an integer beyond 2^53."""
    return Outcome(True, value, notes, text=dump(value))


def _with_note(page: dict[str, Any], what: str = "") -> Outcome:
    """A page; the first piece of a row says so, and `what` says that the result has no rows."""
    if what:
        page["note"] = f"{what}: it counts as one row; results.load(handle) gives it whole"
    if page.get("pieces", 0) < 2 or page["piece"]:
        return _written(page)
    where = f"row {page['offset']} of {page['handle']}"
    if isinstance(page["rows"][0], str):
        how = "texts that make up the line when joined"
    else:
        how = "objects {$row, $piece, $pieces, part} with stretches of its JSON text"
    return _written(
        page,
        f"{where} is too large to be given whole: it comes in {page['pieces']} pieces, {how}; of what chunks gives, "
        "rows.continues tells that the next one goes on in the same row",
    )


def _keep(given: list[Any], store: ResultStore) -> str:
    match given:
        case [str(name), str(data)]:
            return store.save_array(name, data)
    raise InvalidRequest("results.keep takes the type of an array and its bytes in base64")


def spoken_method(method: str) -> str:
    """How code calls it."""
    return "results.chunks" if method == "chunk" else f"results.{method}"


def _usage(method: str) -> str:
    first, *options = TAKES[method] or ("",)
    said = f", {{{', '.join(options)}}}" if options else ""
    return f"write {spoken_method(method)}({first}{said})"


def _handle(method: str, given: list[Any]) -> str:
    first = given[0] if given else None
    handle = first
    if isinstance(first, dict):  # an info object or an image value may stand for its handle
        handle = first.get("handle") or first.get("ref")
    if not isinstance(handle, str) or not handle:
        was = f", not {told(first)}" if given else ""
        raise InvalidRequest(f"{spoken_method(method)} takes a handle first{was}", hint=_usage(method))
    name = handle.strip().removeprefix(ADDRESS)
    return name if name == handle.strip() else name.partition("/")[0]  # an address may be that of a page


def _options(method: str, given: list[Any]) -> dict[str, Any]:
    """The second argument; what would be passed over in silence is an error that says what is taken."""
    first, *known = TAKES[method] or ("",)
    if first == "value" and not given:
        raise InvalidRequest(f"{spoken_method(method)} takes a value first", hint=_usage(method))
    most = 0 if not first else 2 if known else 1
    if extra := [value for value in given[most:] if value is not None]:
        takes = (
            "no arguments" if not first else f"only a {first}" if not known else f"a {first} and one object"
        )
        raise InvalidRequest(
            f"{spoken_method(method)} takes {takes}: {told(extra[0])} is too many", hint=_usage(method)
        )
    options = given[1] if most == 2 and len(given) > 1 else None
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise InvalidRequest(
            f"{spoken_method(method)} takes its options as an object, not {told(options)}",
            hint=_usage(method),
        )
    if unknown := [key for key in options if key not in known]:
        near = difflib.get_close_matches(unknown[0][:GIVEN_CHARS].lower(), known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise InvalidRequest(
            f"{spoken_method(method)} has no option {told(unknown[0])}; it has: {', '.join(known)}{meant}",
            hint=_usage(method),
        )
    return options


def _label(options: dict[str, Any]) -> str | None:
    label = options.get("label")
    if label is not None and not isinstance(label, str):
        raise InvalidRequest(f"label must be text, not {told(label)}", hint=_usage("save"))
    return label


def _compacted(rows: Any, options: dict[str, Any]) -> Any:
    for name, what in (("fields", "an array of field names"), ("budget_tokens", "a whole number from 1")):
        if name in options and options[name] is None:  # as None it would mean that it was left out
            raise InvalidRequest(f"{name} must be {what}, not null{NULL_MAY_BE}", hint=_usage("compact"))
    return compact(
        with_wide_integers(rows, float),
        fields=options.get("fields"),
        budget_tokens=options.get("budget_tokens"),
    )


def too_large(tool: str, backend: str, size: str, most: int, handle: str) -> Json:
    """Return the error in place of a result that code cannot take at once."""
    return {
        "name": "LimitError",
        "message": f"the result of {tool} has {size} and code takes {most} at a time "
        f"(limit.result: sandbox.max_result_bytes); all of it is kept as {handle}",
        "tool": tool,
        "backend": backend,
        "code": "limit.result",
        "hint": f'do not call it again: `for await (const rows of results.chunks("{handle}"))` goes through all of it',
    }
