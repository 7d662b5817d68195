"""`gatemini eval [QUERIES]`: does search find the right tools of *this* catalog?

The queries, with the tools that would be right, come from a file or from what was searched and then called
through this gateway; the answer is recall@k, MRR and the misses. Above: main. Below: search/evaluate.py,
history.py.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.from_thread
import anyio.to_thread
import typer

from gatemini.app import App
from gatemini.cli import shell
from gatemini.cli.gateway import settle_search, with_app
from gatemini.errors import InvalidRequest
from gatemini.history import history_path, read_history
from gatemini.search.evaluate import (
    Query,
    Report,
    Scores,
    evaluate,
    parse_queries,
    queries_from_history,
)
from gatemini.types.identifiers import short_name

app = shell.application("Measure search on your own tools.")
MISSES_SHOWN = 20
UNKNOWN_SHOWN = 5


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


@app.command("eval")
def evaluation(
    queries: Annotated[
        Path | None,
        typer.Argument(
            help="JSON: a list of {query, tools} or {query, needs}. Without it: your own history."
        ),
    ] = None,
    config: shell.CONFIG = None,
    as_json: shell.JSON = False,
) -> None:
    """Ask every query of a file, or of your own history, and score what search finds."""
    given = None if queries is None else read_queries(queries)

    async def action(gateway: App) -> Report:
        await settle_search(gateway)

        async def find(text: str, limit: int) -> list[str]:
            meaning = await gateway.embedding.meaning(text)
            return [
                hit.tool.qualified for hit in gateway.index.search(text, limit=limit, meaning=meaning).hits
            ]

        def search(text: str, limit: int) -> list[str]:
            return anyio.from_thread.run(find, text, limit)

        asked = own_queries(gateway) if given is None else given
        if given is not None:
            tell_unknown(asked, {tool.qualified for tool in gateway.registry.tools()})
        return await anyio.to_thread.run_sync(evaluate, search, asked)

    report = with_app(config, action)
    if as_json:
        shell.emit(dataclasses.asdict(report))
    else:
        show(report)


def own_queries(gateway: App) -> list[Query]:
    """What was searched and then called, as far as the tools are still there. Raises InvalidRequest for nothing."""
    path = history_path(gateway.cache.path)
    there = {tool.qualified for tool in gateway.registry.tools()}
    found: list[Query] = []
    for query in queries_from_history(read_history(path)):
        needs = tuple(need for need in query.needs if set(need) & there)
        if needs:
            found.append(dataclasses.replace(query, needs=needs))
    if not found:
        switch = "" if gateway.loaded.config.search.history else " (search.history is off)"
        raise InvalidRequest(
            f"no search of this gateway was followed by a call yet{switch}",
            hint="use it for a while, or give a file of queries: gatemini eval QUERIES.json",
        )
    return found


def read_queries(path: Path) -> list[Query]:
    """The queries of a file; raises InvalidRequest naming the file."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as exc:
        raise InvalidRequest(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidRequest(
            f"{path} holds no JSON: {exc}",
            hint='write [{"query": "read a file", "tools": ["files.read_file"]}, …]',
        ) from exc
    return parse_queries(data)


def tell_unknown(queries: Sequence[Query], known: set[str]) -> None:
    """Tools that nobody has cannot be found: a miss of theirs says nothing about search."""
    unknown = sorted({name for query in queries for need in query.needs for name in need} - known)
    if unknown:
        more = ", …" if len(unknown) > UNKNOWN_SHOWN else ""
        shown = ", ".join(map(short_name, unknown[:UNKNOWN_SHOWN]))
        shell.note(f"{len(unknown)} of the tools asked for are not in this catalog: {shown}{more}")


def show(report: Report) -> None:
    """The scores as a table, then the queries whose tools were not among the first five."""
    table = shell.table("kind", "queries", "R@1", "R@5", "R@10", "MRR")
    rows: dict[str, Scores] = {**report.categories, "all": report.all}
    for name, scores in rows.items():
        recall = [f"{scores.recall.get(k, 0.0):.3f}" for k in (1, 5, 10)]
        table.add_row(name, str(scores.queries), *recall, f"{scores.mrr:.3f}")
    console = shell.stdout_console()
    console.print(table)
    console.print(f"{report.median_ms:.2f} ms a query (median)")
    for miss in report.misses[:MISSES_SHOWN]:
        wanted = "; ".join(" or ".join(need) for need in miss.missing)
        console.print(
            f"missed: {miss.query.text!r} wants {wanted}; found {', '.join(miss.found[:3]) or 'nothing'}"
        )
    if len(report.misses) > MISSES_SHOWN:
        shell.note(f"{len(report.misses) - MISSES_SHOWN} more misses; --json lists all")
