"""Patterns and expressions of policy rules, compiled once; a faulty one is found when the configuration is read.

Patterns have the syntax of Rust's regex crate, which takes linear time for any text: no backreferences, no look-around,
and `$` is the end of the text only, never the place before a last newline.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import SchemaError, SchemaValidator, core_schema

CEL_MISSING = "needs the extra cel (pip install 'gatemini[cel]')"


def _tool_glob(text: str) -> str:
    if "." not in text and "*" not in text:
        raise ValueError("a glob over backend.tool, such as github.delete_*")
    return text


ToolGlob = Annotated[str, AfterValidator(_tool_glob)]

Matches = Callable[[object], bool]
"""Whether a value is text in which the pattern is found."""

Evaluate = Callable[[dict[str, Any]], Any]
"""The value of an expression with these variables; raises what the library raises."""


def compile_pattern(pattern: str) -> Matches:
    """Return the test for a pattern. Raises ValueError with the fault."""
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, strict=True))
    except SchemaError as error:
        found = re.search(r"error: (.+)", str(error)) or re.search(r"SchemaError: (.+)", str(error))
        raise ValueError(
            f"a pattern that can be matched in linear time: {found[1] if found else error}"
        ) from None
    return validator.isinstance_python


def compile_expression(text: str) -> Evaluate:
    """Return the evaluation of a CEL expression. Raises ValueError without the extra, or with the fault of the text."""
    try:
        cel = importlib.import_module("cel")
    except ImportError:
        raise ValueError(f"`when` {CEL_MISSING}") from None
    try:
        program = cel.compile(text)
    except Exception as error:  # noqa: BLE001 - of a library: its errors have no base of their own
        raise ValueError(f"a CEL expression: {' '.join(str(error).split())}") from None
    evaluate: Evaluate = program.execute
    return evaluate
