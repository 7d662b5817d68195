"""What changed in this gateway, told to whoever listens: tools of a backend, its state, calls to it.

Sync and without I/O; a listener only notes what it heard. Above: server/subscriptions.py listens. Below:
app.py tells (from the registry, the manager and the tracker).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Kind = Literal["tools", "state", "calls"]
Listener = Callable[[Kind, str | None], None]
"""Told the kind of change and the backend; None where it concerns all of them."""


class Changes:
    """One per gateway."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` after every change from now on; the answer ends that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def tell(self, kind: Kind, backend: str | None = None) -> None:
        for listener in self._listeners.copy():
            listener(kind, backend)
