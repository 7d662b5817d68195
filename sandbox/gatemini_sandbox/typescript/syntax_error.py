"""The error of code that cannot be read, or that needs what the sandbox lacks; raised before anything runs.

Positions are those of the text as submitted. Imports no parser: the gateway uses it too.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["syntax", "unsupported", "module"]
"""syntax: no parser takes it; unsupported: TypeScript that this sandbox does not run; module: import of other files."""


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
