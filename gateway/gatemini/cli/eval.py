"""`gatemini eval [QUERIES]`: does search find the right tools of *this* catalog?

Queries and the tools that are right for them come from a file, or from the searches of this gateway and the calls after
them; the answer is recall@k, MRR and the misses.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.open_gateway import settle_search, with_app
from gatemini.errors import InvalidRequest

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.discovery.search.evaluate import Query, Report, Scores

MISSES_SHOWN = 20
UNKNOWN_SHOWN = 5


def evaluation(*, queries: Path | None, config: Path | None, as_json: bool) -> None:
    """Ask every query of a file, or of your own history, and score what search finds."""
    given = None if queries is None else read_queries(queries)
    import anyio.from_thread
    import anyio.to_thread

    from gatemini.discovery.search.evaluate import evaluate

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
            note_unknown(asked, {tool.qualified for tool in gateway.registry.tools()})
        return await anyio.to_thread.run_sync(evaluate, search, asked)

    report = with_app(config, action)
    if as_json:
        shell.emit(dataclasses.asdict(report))
    else:
        show(report)


def own_queries(gateway: App) -> list[Query]:
    """Searches and the calls after them, as far as the tools still exist. Raises InvalidRequest if there are none."""
    from gatemini.discovery.history import history_path, read_history
    from gatemini.discovery.search.evaluate import queries_from_history

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
        data: Any = json.loads(shell.source_text(path))
    except (ValueError, RecursionError) as exc:
        raise InvalidRequest(
            f"{path} holds no JSON: {exc}",
            hint='write [{"query": "read a file", "tools": ["files.read_file"]}, …]',
        ) from exc
    from gatemini.discovery.search.evaluate import parse_queries

    return parse_queries(data)


def note_unknown(queries: Sequence[Query], known: set[str]) -> None:
    """Name tools that no backend has: that search does not find them says nothing about search."""
    from gatemini.discovery.types.identifiers import short_name

    unknown = sorted({name for query in queries for need in query.needs for name in need} - known)
    if unknown:
        more = ", …" if len(unknown) > UNKNOWN_SHOWN else ""
        shown = ", ".join(map(short_name, unknown[:UNKNOWN_SHOWN]))
        shell.note(f"{len(unknown)} of the tools that queries need are not in this catalog: {shown}{more}")


def show(report: Report) -> None:
    """The scores as a table, then the queries whose tools were not among the first five."""
    rows: dict[str, Scores] = {**report.categories, "all": report.all}
    shell.rows(
        ("kind", "queries", "R@1", "R@5", "R@10", "MRR"),
        (
            (
                name,
                str(scores.queries),
                *(f"{scores.recall.get(k, 0.0):.3f}" for k in (1, 5, 10)),
                f"{scores.mrr:.3f}",
            )
            for name, scores in rows.items()
        ),
    )
    shell.say(f"{report.median_ms:.2f} ms a query (median)")
    for miss in report.misses[:MISSES_SHOWN]:
        wanted = "; ".join(" or ".join(need) for need in miss.missing)
        shell.say(
            f"missed: {miss.query.text!r} wants {wanted}; found {', '.join(miss.found[:3]) or 'nothing'}"
        )
    if len(report.misses) > MISSES_SHOWN:
        shell.note(f"{len(report.misses) - MISSES_SHOWN} more misses; --json lists all")


COMMANDS = (
    shell.Command(
        "eval",
        evaluation,
        [
            shell.argument(
                "queries",
                type=Path,
                nargs="?",
                help="JSON: a list of {query, tools} or {query, needs}; without it, your own history",
            )
        ],
    ),
)
