"""Refuse code before any parser sees it: by its size, and for thousands of open brackets."""

from __future__ import annotations

import re

from gatemini.errors import CodeError, CodeTooLarge

MAX_OPEN_BRACKETS = 3000
"""Brackets open at once; the guest's own limit of nesting is far below."""

_DEEP_GENERICS = re.compile(r"(?<![\w.$])(?:[\w.$]++\s*+<\s*+){200}")


def check_size(code: str, limit: int) -> None:
    """Refuse code of more than `limit` bytes of UTF-8."""
    size = len(code.encode("utf-8", "replace"))
    if size > limit:
        raise CodeTooLarge(
            f"the code has {size:,} bytes, more than the limit of {limit:,} "
            f"({CodeTooLarge.code}: sandbox.max_code_bytes)",
            hint="move data out of the code: let a tool produce it, or results.save(value) it in an earlier chain",
        )


def check_nesting(code: str) -> None:
    """Refuse thousands of brackets left open: the guest's own parser takes quadratic time for them."""
    if sum(map(code.count, "([{")) > MAX_OPEN_BRACKETS:
        depth = 0
        for line, text in enumerate(code.split("\n"), 1):
            depth += sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
            deepest = depth if len(text) < MAX_OPEN_BRACKETS else _deepest(text, depth)
            if deepest > MAX_OPEN_BRACKETS:
                raise CodeError(
                    f"more than {MAX_OPEN_BRACKETS} brackets are open at line {line}",
                    hint="close them, or move nested data out of the code: results.save(value) it in an earlier chain",
                )
    if _DEEP_GENERICS.search(code):
        raise CodeError("type arguments are nested more than 200 deep", hint="leave the type out")


def _deepest(text: str, after: int) -> int:
    """The most brackets open anywhere in a line after which `after` are."""
    depth = after - sum(map(text.count, "([{")) + sum(map(text.count, ")]}"))
    most = depth
    for character in text:
        if character in "([{":
            depth += 1
            most = max(most, depth)
        elif character in ")]}":
            depth -= 1
    return most
