"""One client's stay: what belongs to it and to nobody else.

A session may outlive one connection; in direct mode there is exactly one. Above: tools.py, chain/.
Below: output/results.py.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from gatemini.output.results import ResultStore


@dataclass(slots=True)
class Session:
    """Identity, announced client name, and the session's own result store."""

    results: ResultStore
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    client: str | None = None

    def close(self) -> None:
        self.results.close()
