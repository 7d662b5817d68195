"""Check programs of a configuration without running them, in a process of their own that ends at once.

Blocking, and light to import: no parser comes into the calling process.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from functools import lru_cache

from gatemini_sandbox.errors import WorkerLost
from gatemini_sandbox.messages import Check, Checked, CodeCheck
from gatemini_sandbox.processes import spawn
from gatemini_sandbox.processes.supervised_worker import START_SECONDS, exchange

logger = logging.getLogger(__name__)


def check_codes(sources: Sequence[str]) -> list[CodeCheck]:
    """The syntax error of each program, and the calls it makes of names it does not declare. Where no process can be
    had nothing is found: errors then show when the programs run."""
    if not sources:
        return []
    try:
        return _checked(tuple(sources))
    except (OSError, WorkerLost) as exc:
        logger.warning("composite tools are not checked: %s", exc)
        return [CodeCheck() for _ in sources]


@lru_cache(1)  # a configuration is read again whenever its file changes
def _checked(sources: tuple[str, ...]) -> list[CodeCheck]:
    if sys.platform == "win32":  # no sandbox processes there: see Sandbox.isolation
        results: list[CodeCheck] = importlib.import_module("gatemini_sandbox.processes.process").check_all(
            list(sources)
        )
        return results
    child = spawn.Child()
    try:
        answer = exchange(
            child.socket, Check(sources=[s.encode("utf-8", "replace") for s in sources]), START_SECONDS
        )
    finally:
        child.kill()
        child.reap()
    if not isinstance(answer, Checked) or len(answer.results) != len(sources):
        raise WorkerLost("it sent no results")
    return answer.results
