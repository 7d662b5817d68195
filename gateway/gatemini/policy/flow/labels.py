"""Labels of what a session has read: `untrusted` (others wrote it) and `private` (it must not get out).

A session only gathers labels. Whatever code or a model does with a result, the session keeps its labels, so that copies
through variables, handles, journals and later turns are covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gatemini.config.model.flow import LABELS, Label

WORDS: Mapping[Label, str] = {"untrusted": "untrusted content", "private": "private data"}

READS_NAMED = 10
"""Tools that are named for each label; further ones are counted."""

NOT_GATHERED = "(something before policy.flow was switched on)"
"""Replaces the names of the tools that a session called before the guard was on."""


class Held:
    """The labels of one session, each with the tools it came from."""

    def __init__(self) -> None:
        self._reads: dict[Label, dict[str, None]] = {}
        self._more: dict[Label, int] = {}

    def __contains__(self, label: Label) -> bool:
        return label in self._reads

    def add(self, labels: Iterable[Label], tool: str) -> None:
        """Note that the session has read something with these labels."""
        for label in labels:
            reads = self._reads.setdefault(label, {})
            if tool in reads:
                continue
            if len(reads) < READS_NAMED:
                reads[tool] = None
            else:
                self._more[label] = self._more.get(label, 0) + 1

    def add_unknown(self) -> None:
        """Note that the session may have read anything."""
        self.add(LABELS, NOT_GATHERED)

    def reads(self, label: Label) -> str:
        """Return the tools that a label came from, in words."""
        more = self._more.get(label, 0)
        return ", ".join(self._reads.get(label, ())) + (f" and {more} calls more" if more else "")

    def sentences(self) -> tuple[str, ...]:
        """Return what was read, one sentence a label."""
        return tuple(f"{WORDS[label]}: {self.reads(label)}" for label in LABELS if label in self)

    def names(self) -> tuple[Label, ...]:
        """Return the labels, for the audit."""
        return tuple(label for label in LABELS if label in self) if self._reads else ()

    def plain(self) -> dict[str, list[str]]:
        """Return the labels as plain data, for the next process."""
        return {label: list(reads) for label, reads in self._reads.items()}

    def restore(self, plain: Mapping[str, Iterable[str]] | None) -> None:
        """Add labels that an earlier process gathered; None: it gathered none, so the session may have read anything."""
        if plain is None:
            self.add_unknown()
            return
        for label in LABELS:
            for tool in plain.get(label, ()):
                self.add((label,), str(tool))
