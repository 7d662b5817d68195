"""Results of a session that several clients may share: each is reached by its handle, and none is listed."""

from __future__ import annotations

from typing import Any

from gatemini.output.store.results import ResultStore

_Handles = list[str]


class SharedResults(ResultStore):
    """A store whose handles are known only to the client that was given them."""

    def list(self) -> list[dict[str, Any]]:
        return []

    def handles(self) -> _Handles:
        return []
