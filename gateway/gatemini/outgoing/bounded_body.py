"""Read the body of an HTTP response up to a number of bytes, whatever its headers promise."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2


async def bounded_body(response: httpx2.Response, most: int) -> bytes | None:
    """Return the whole body of an open response, or None once it has more than `most` bytes."""
    body = BytesIO()
    async for part in response.aiter_bytes():
        if body.tell() + len(part) > most:
            return None
        body.write(part)
    return body.getvalue()
