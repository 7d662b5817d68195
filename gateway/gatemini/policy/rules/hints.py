"""The effective hints of a tool: its annotations where they are trusted or overridden, else the strictest values."""

from __future__ import annotations

from collections.abc import Mapping

from gatemini.config.model.policy import Annotations, PolicyConfig
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.model import Tool
from gatemini.policy.facts import Hints
from gatemini.policy.rules.globs import compile_globs, tool_names

UNKNOWN = Hints()
"""An unannotated tool: not read-only, destructive, open-world. No annotation could make it stricter."""

HARMLESS = Hints(read_only=True, destructive=False, open_world=False, idempotent=True)
"""Also a composite tool by itself: what it does are calls of other tools, each of which is decided about."""


MOST_KEPT = 20_000
"""Tools whose hints are kept; with more, all are found anew."""


class HintRules:
    """`trust_annotations` and `override_annotations`, compiled."""

    def __init__(self, config: PolicyConfig) -> None:
        self._trusted = compile_globs(config.trust_annotations)
        self._kept: dict[tuple[str, str, bool], tuple[tuple[Tool, Hints], ...]] = {}
        """The last two tools of a name: a call has the one that its client finds, and the one that its server lists."""
        self._overrides = [(compile_globs((g,)), hints) for g, hints in config.override_annotations.items()]

    def of(self, tool: Tool, *, trusted: bool = True) -> Hints:
        """Return the hints of a tool. The first override that fits replaces what it names.

        `trusted`: whether `trust_annotations` may be about its backend.
        """
        key = tool.backend, tool.name, trusted
        kept = self._kept.get(key, ())
        for known, hints in kept:
            if known is tool:
                return hints
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        hints = self._of(tool, trusted)
        self._kept[key] = (tool, hints), *kept[:1]
        return hints

    def _of(self, tool: Tool, trusted: bool) -> Hints:
        if tool.backend == COMPOSITE_BACKEND:
            return HARMLESS
        believed = trusted and self._trusted(tool.backend)
        own: Mapping[str, object] = tool.annotations if believed else {}
        names = tool_names(tool.backend, tool.name, tool.qualified)
        for matches, override in self._overrides:
            if any(map(matches, names)):
                return _effective(own, override)
        return _effective(own, None) if own else UNKNOWN


def _effective(own: Mapping[str, object], override: Annotations | None) -> Hints:
    """The hints of trusted annotations and an override; where neither says so, the protocol's default."""

    def said(hint: bool | None, annotation: str, default: bool) -> bool:
        value = hint if hint is not None else own.get(annotation)
        return value if isinstance(value, bool) else default

    given = override or Annotations.model_construct()
    read_only = said(given.readOnly, "readOnlyHint", False)
    return Hints(
        read_only=read_only,
        destructive=said(given.destructive, "destructiveHint", not read_only),
        open_world=said(given.openWorld, "openWorldHint", True),
        idempotent=said(given.idempotent, "idempotentHint", read_only),
    )
