"""The error of code that cannot be read, or that needs what the sandbox lacks; raised before anything runs.

Positions are those of the text as submitted. Imports no parser: the gateway uses it too.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["syntax", "unsupported", "module"]
"""syntax: no parser takes it; unsupported: TypeScript that this sandbox does not run; module: import of other files."""

# A shown source line is cut to this many characters around the caret: minified code has lines of 100 KB.
SHOWN_WIDTH = 120


class SandboxSyntaxError(Exception):
    """Line and column are 1-based, columns in Unicode code points; `source_line` is the whole offending line."""

    name = "SyntaxError"

    def __init__(
        self,
        message: str,
        *,
        line: int,
        column: int,
        source_line: str,
        hint: str | None = None,
        kind: Kind = "syntax",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.source_line = source_line
        self.hint = hint
        self.kind: Kind = kind


def excerpt(source_line: str, column: int) -> tuple[str, str]:
    """The source line and, below it, a caret under the 1-based column; tabs are kept so that the two line up."""
    start = max(0, column - 1 - SHOWN_WIDTH // 2) if len(source_line) > SHOWN_WIDTH else 0
    shown = source_line[start : start + SHOWN_WIDTH]
    before = source_line[start : column - 1]
    padding = "".join("\t" if character == "\t" else " " for character in before)
    left = "…" if start else ""
    right = "…" if start + SHOWN_WIDTH < len(source_line) else ""
    return f"  {left}{shown}{right}", f"  {' ' * len(left)}{padding}^"
