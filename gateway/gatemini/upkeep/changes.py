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
        self._listeners: dict[Kind, dict[Listener, None]] = {"tools": {}, "state": {}, "calls": {}}

    def listen(self, callback: Listener, *kinds: Kind) -> None:
        """Call `callback` after every change of these kinds, until it leaves."""
        for kind in kinds:
            self._listeners[kind][callback] = None

    def leave(self, callback: Listener, *kinds: Kind) -> None:
        for kind in kinds:
            self._listeners[kind].pop(callback, None)

    def tell(self, kind: Kind, backend: str | None = None) -> None:
        for listener in list(self._listeners[kind]):
            listener(kind, backend)
