"""What `gatemini llm-proxy` keeps in a running daemon: the results behind its handles, and its totals."""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from gatemini.errors import ResultGone
from gatemini.output.store.fetched_rows import HANDLE, PAGE_BYTES, fetch_rows
from gatemini.output.store.results import MAX_ROWS, ResultStore

COMMAND = "llm_proxy"
MOST_PROXIES = 100
"""Totals that are held; the oldest go first."""

_Arguments = dict[str, Any]


class LlmProxies:
    """Answers the proxies of this user. Results are forgotten after an hour without use."""

    def __init__(self) -> None:
        self._results = ResultStore()
        self._totals: dict[tuple[str, str], dict[str, Any]] = {}

    async def answer(self, arguments: _Arguments) -> dict[str, Any]:
        """Answer one command, which the argument `do` names."""
        match arguments.get("do"):
            case "keep":
                return self._keep(arguments)
            case "rows":
                of_session = _Rows(self._results, str(arguments.get("session")))
                text = await anyio.to_thread.run_sync(fetch_rows, of_session, arguments.get("arguments"))
                return {"ok": True, "text": text}
            case "totals":
                return self._count(arguments.get("account"))
            case "list":
                return {"ok": True, "proxies": list(self._totals.values())}
        return {"ok": False, "error": "do: allowed are keep, rows, totals and list"}

    def _keep(self, arguments: _Arguments) -> dict[str, Any]:
        handle, session = str(arguments.get("handle")), str(arguments.get("session"))
        try:
            body = b64decode(str(arguments.get("body")), validate=True)
        except binascii.Error:
            return {"ok": False, "error": "body: allowed is base64"}
        if not HANDLE.fullmatch(handle):
            return {"ok": False, "error": "handle: allowed is res_ and 8 hex digits"}
        if not self._results.touch(handle):
            self._results.save_bytes(
                body, "text" if arguments.get("is_text") else None, label=session, handle=handle
            )
        return {"ok": True}

    def _count(self, account: Any) -> dict[str, Any]:
        if not isinstance(account, dict):
            return {"ok": False, "error": "account: allowed is an object"}
        key = (str(account.get("pid")), str(account.get("process_started")))
        self._totals.pop(key, None)
        self._totals[key] = account
        while len(self._totals) > MOST_PROXIES:
            del self._totals[next(iter(self._totals))]
        return {"ok": True}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Reads rows of one session's results."""

    results: ResultStore
    session: str

    def rows(self, handle: str, offset: Any = 0, limit: Any = MAX_ROWS) -> dict[str, Any]:
        if self.results.info(handle).get("label") != self.session:
            raise ResultGone(f"{handle} is of another session")
        return self.results.rows(handle, offset, limit, most=PAGE_BYTES)
