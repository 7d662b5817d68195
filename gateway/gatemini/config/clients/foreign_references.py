"""References to variables in the forms of other clients, as ours.

Continue writes `${{ secrets.NAME }}`, OpenCode `{env:NAME}`, Crush and Gemini `$NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gatemini.config.clients import table

_CONTINUE = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_OPENCODE = re.compile(r"(?<!\$)\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SHELL = re.compile(r"(?<![\\$])\$([A-Za-z_][A-Za-z0-9_]*)")
_ONLY_ONE = re.compile(r"\$[A-Z_][A-Z0-9_]*\Z")


def refer(raw: dict[str, Any], client: str, environ: Mapping[str, str]) -> None:
    """Rewrite the references in all places that a server's texts are in."""
    for place in (place for place in table.SAME if place in raw):
        value = _changed(raw[place], lambda text: _CONTINUE.sub(r"${\1}", text))
        if client == "opencode":
            value = _changed(value, lambda text: _OPENCODE.sub(r"${\1}", text))
        elif client == "crush":
            value = _changed(value, lambda text: _SHELL.sub(r"${\1}", text))
        elif client in ("gemini", "copilot"):
            value = _changed(value, lambda text: _known(text, environ))
        raw[place] = value


def _known(text: str, environ: Mapping[str, str]) -> str:
    """The text with variables that are set; others stay as they are, but for one that is the whole text."""
    whole = _ONLY_ONE.match(text) is not None

    def written(match: re.Match[str]) -> str:
        return f"${{{match[1]}}}" if whole or match[1] in environ else match[0]

    return _SHELL.sub(written, text)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def foreign(value: Any, client: str) -> str | None:
    """What a text holds that only its own client can read, so that it must not be sent as it is."""
    text = str(value)
    if client == "crush" and "$(" in text:
        return "holds $(…), a command that Crush runs and the gateway does not"
    if client == "opencode" and "{file:" in text:
        return "holds {file:…}, a file that OpenCode reads and the gateway does not"
    return None
