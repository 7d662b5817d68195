"""Notify listeners of changes in this gateway: the tools of a backend, its state, calls to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Kind = Literal["tools", "state", "calls"]
Listener = Callable[[Kind, str | None], None]
"""Called synchronously with the kind of change and the backend, None if it concerns all of them."""


class Changes:
    """The change notifications of one gateway."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` after every change, until the returned function is called."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def tell(self, kind: Kind, backend: str | None = None) -> None:
        for listener in self._listeners.copy():
            listener(kind, backend)
