"""Prediction of tools: is the tool that a request needs among those that are kept, and how many bytes are left?

    python -P tests/benchmarks/prediction.py FOLDER             # FOLDER has corpus.json; the half `report`
    python -P tests/benchmarks/prediction.py FOLDER --half tune # the half on which parameters are set
    python -P tests/benchmarks/prediction.py FOLDER --misses    # also the requests whose tools are missing

The 60 requests of ten agents are in tests/data/tool_prediction.json. Each is the first request of a session, and takes
the same path as in the proxy, with and without the search model.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from gatemini.config.model.context import ToolsConfig
from gatemini.context import Session, ToolFilter, parse_request
from gatemini.llm_proxy.meaning import MeaningOfTools
from gatemini.llm_proxy.predicting import Predicting
from gatemini.llm_proxy.upstream import Upstream

LABELLED = Path(__file__).resolve().parents[1] / "data" / "tool_prediction.json"
NEEDED_WITH_MODEL, NEEDED_BY_WORDS, MOST_BYTES = 0.95, 0.85, 0.5
"""Share of requests whose tools are all kept, and bytes of the tools, as shares of all."""


@dataclass
class Case:
    """A request with its tools, and the names that must be kept."""

    agent: str
    kind: str
    half: str
    text: str
    needed: list[str]
    body: bytes


@dataclass
class Measured:
    """What became of one request."""

    case: Case
    missing: list[str]
    before: int
    after: int


def cases(folder: Path) -> Iterator[Case]:
    """The labelled requests, over the tool definitions of the corpus."""
    corpus = json.loads((folder / "corpus.json").read_text("utf-8"))["tools"]
    for agent in json.loads(LABELLED.read_text("utf-8"))["agents"]:
        several = len(agent["servers"]) > 1
        tools = [
            {
                "name": f"{server}__{tool['name']}" if several else tool["name"],
                "description": tool["description"] or "",
                "input_schema": tool["inputSchema"] or {"type": "object"},
            }
            for server in agent["servers"]
            for tool in corpus
            if tool["server"] == server
        ]
        assert len(tools) == agent["tools"]
        for request in agent["requests"]:
            body: Any = {"model": "m", "max_tokens": 1_000, "tools": tools}
            body["messages"] = [{"role": "user", "content": request["text"]}]
            yield Case(
                agent["agent"], request["kind"], request["half"], request["text"], request["needed"],
                json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(),
            )  # fmt: skip


async def measure(found: list[Case], predicting: Predicting) -> list[Measured]:
    """Filter each request as a session of its own."""
    config = ToolsConfig()
    tool_filter = ToolFilter(config)
    measured = []
    for case in found:
        request = parse_request(case.body, "anthropic")
        question = tool_filter.question(request)
        assert question is not None
        prediction = await predicting.by_search(question)
        data, report = tool_filter.apply(request, prediction, session=Session())
        missing = [name for name in case.needed if name not in report["included"]]
        measured.append(Measured(case, missing, len(case.body), len(data)))
    return measured


def needed_share(measured: list[Measured]) -> float:
    return sum(not each.missing for each in measured) / len(measured)


def bytes_share(measured: list[Measured]) -> float:
    return sum(each.after for each in measured) / sum(each.before for each in measured)


async def run(folder: Path, half: str) -> dict[str, list[Measured]]:
    """The requests of one half, with the search model and without it."""
    found = [case for case in cases(folder) if case.half == half]
    predicting = Predicting(ToolsConfig(), Upstream("http://127.0.0.1"))
    by_words = await measure(found, predicting)
    async with MeaningOfTools.open("bundled") as predicting.meaning:
        await predicting.meaning.ready()
        return {"with the search model": await measure(found, predicting), "by words alone": by_words}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("tune", "report"), default="report")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        results = anyio.run(run, options.folder, options.half)
    for way, measured in results.items():
        kinds = {kind: [m for m in measured if m.case.kind == kind] for kind in ("plain", "paraphrase")}
        shares = ", ".join(f"{kind} {needed_share(some):.1%}" for kind, some in kinds.items())
        print(
            f"{way}: {len(measured)} requests, needed tools kept {needed_share(measured):.1%} ({shares}), "
            f"bytes {bytes_share(measured):.1%}"
        )
        for each in measured if options.misses else ():
            if each.missing:
                print(f"  {each.case.agent}: {each.case.text}  lacks {', '.join(each.missing)}")


if __name__ == "__main__":
    main()
