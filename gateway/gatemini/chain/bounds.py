"""The size of submitted code, checked before any parser sees it."""

from __future__ import annotations

from gatemini.errors import CodeTooLarge


def check_size(code: str, limit: int) -> None:
    """Refuse code of more than `limit` bytes of UTF-8."""
    size = len(code.encode("utf-8", "replace"))
    if size > limit:
        raise CodeTooLarge(
            f"the code has {size:,} bytes, more than the limit of {limit:,} "
            f"({CodeTooLarge.code}: sandbox.max_code_bytes)",
            hint="move data out of the code: let a tool produce it, or results.save(value) it in an earlier chain",
        )
