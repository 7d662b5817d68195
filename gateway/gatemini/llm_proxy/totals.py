"""What the proxy saved: per request and in total, in one small private file for `gatemini stats`.

The file has counts, names of tools and the model's reasons for asking for one; no text of a request and no key.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gatemini.context import Fallback, FilterMetrics
from gatemini.folders import state_folder
from gatemini.output.compact import BYTES_PER_TOKEN
from gatemini.processes.process_facts import start_time
from gatemini.upkeep.process_records import ProcessRecord, RecordFiles

FOLDER, KIND = "llm-proxy", "proxy"
REQUESTS_KEPT = 200
NAME_CHARS = 100

logger = logging.getLogger(__name__)


class ProxyAccount(ProcessRecord):
    """The totals of one proxy, as its file has them."""

    started: str
    last: str
    upstream: str
    requests: int
    passed: int
    upstream_requests: int
    input_tokens_before: int
    input_tokens: int
    steps: dict[str, dict[str, int]]
    tools: dict[str, Any]
    recent: list[dict[str, Any]]

    def last_active(self) -> str:
        return self.last


class Totals:
    """Counts of this proxy. Input tokens are bytes of requests / 4, repeats included."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.passed = 0
        """Requests of the paths that are worked on which passed as they were."""
        self.tools = FilterMetrics()
        self._started = self._last = _now()
        self._requests = self._upstream_requests = self._before = self._after = 0
        self._answers = 0
        self._steps: dict[str, dict[str, int]] = {}
        self._recent: deque[dict[str, Any]] = deque(maxlen=REQUESTS_KEPT)

    def record(self, format: str, before: int, sent: Sequence[int], report: dict[str, Any]) -> None:
        """Count one request: its bytes, those of each request to the provider, and what the steps did."""
        self._last = _now()
        self._requests += 1
        self._upstream_requests += len(sent)
        tokens = sum(map(_tokens, sent))
        self._before += _tokens(before)
        self._after += tokens
        row = {"when": self._last, "format": format, "before": _tokens(before), "input": tokens}
        self._recent.append({**row, "upstream_requests": len(sent), **self._count_steps(report)})

    def record_answer(
        self, fallbacks: Collection[Fallback], report: dict[str, Any], used: Collection[str]
    ) -> None:
        """Count what the filter predicted for a request, and what its answers called."""
        self._answers += 1
        filtered = report.get("filter")
        if filtered is None or filtered.get("enabled") is False:
            return
        # Without `tool_search` nothing was left out: answers are not looked into, and there is nothing to compare.
        predicted = filtered["predicted"] if filtered["tool_search"] else []
        self.tools.record_request({**filtered, "predicted": predicted})
        if predicted:
            self.tools.record_used(predicted, used)
        self.tools.record_fallbacks(
            [Fallback(each.name[:NAME_CHARS], each.reason, each.success) for each in fallbacks]
        )

    def _count_steps(self, report: dict[str, Any]) -> dict[str, int]:
        """Add what each step did; of one request what is shown in its row."""
        fold, trim = report.get("fold", {}), report.get("trim", {})
        tools, mark = report.get("filter", {}), report.get("mark", {})
        done = {
            "fold": {
                "results": fold.get("folded", 0) + fold.get("reduced", 0),
                "tokens": fold.get("result_tokens_before", 0) - fold.get("result_tokens_after", 0),
            },
            "trim": {
                "messages": trim.get("capped", 0) + trim.get("dropped", 0),
                "tokens": trim.get("tokens_before", 0) - trim.get("tokens_after", 0),
            },
            "filter": {
                "definitions": len(tools.get("excluded", ())),
                "tokens": max(0, tools.get("bytes_saved", 0)) // BYTES_PER_TOKEN,
            },
            "mark": {
                "markers": mark.get("markers_added", 0),
                "same_prefix": int(bool(mark.get("same_prefix_as_last"))),
            },
        }
        for step, counts in done.items():
            total = self._steps.setdefault(step, dict.fromkeys(counts, 0))
            for name, count in counts.items():
                total[name] += count
        return {step: counts["tokens"] for step, counts in done.items() if counts.get("tokens")}

    @property
    def version(self) -> tuple[int, int, int]:
        """Differs after each count."""
        return self._requests, self._answers, self.passed

    def account(self, *, ended: bool) -> ProxyAccount:
        return ProxyAccount(
            pid=os.getpid(),
            process_started=start_time(os.getpid()),
            ended=ended,
            started=self._started,
            last=self._last,
            upstream=self.upstream,
            requests=self._requests,
            passed=self.passed,
            upstream_requests=self._upstream_requests,
            input_tokens_before=self._before,
            input_tokens=self._after,
            steps=self._steps,
            tools=self.tools.totals(),
            recent=list(self._recent),
        )


class TotalsFile:
    """This proxy's file in the state directory; written when something changed."""

    def __init__(self, totals: Totals, folder: Path | None = None) -> None:
        self._totals = totals
        self._files = _files(folder)
        self._written: object = None

    def write(self, *, ended: bool = False) -> None:
        """Write the totals as a whole (mode 0600). A folder that cannot be written to is no error."""
        version = (self._totals.version, ended)
        if version == self._written:
            return
        self._written = version
        try:
            self._files.write(orjson.dumps(self._totals.account(ended=ended).model_dump()))
        except OSError as error:
            logger.warning("the totals in %s could not be written: %s", self._files.folder, error)


def read_totals(folder: Path | None = None) -> list[ProxyAccount]:
    """Return the totals of every proxy, newest first."""
    return _files(folder).read()


def _files(folder: Path | None) -> RecordFiles[ProxyAccount]:
    return RecordFiles(folder or state_folder() / FOLDER, KIND, ProxyAccount)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
