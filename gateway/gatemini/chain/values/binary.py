"""Base64 data as backends send it: taken as meant, and what kind of picture it really is."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes of the formats that models take; each refuses a picture that is not what it is called."""

_WEBP: Final = b"WEBP"
_HEAD_CHARS: Final = 24
_URL_HEAD_CHARS: Final = 200
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[^;,]*)*;base64,", re.ASCII | re.IGNORECASE)


def canonical_base64(data: str) -> tuple[str | None, int]:
    """Data as standard base64 with its decoded size; (None, characters) when it is not base64.

    Line breaks, a data URL's head, the URL-safe alphabet and missing padding are taken as meant.
    """
    try:
        return data, len(binascii.a2b_base64(data, strict_mode=True)) if data else 0
    except (binascii.Error, ValueError):
        pass
    head = _DATA_URL.match(data[:_URL_HEAD_CHARS])
    body = data if head is None else data[head.end() :]
    body = "".join(body.split()).replace("-", "+").replace("_", "/").rstrip("=")
    try:
        raw = binascii.a2b_base64(body + "=" * (-len(body) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return None, len(data)
    return base64.b64encode(raw).decode(), len(raw)


def picture_kind(encoded: str | None) -> str | None:
    """The MIME type that standard base64 data shows itself to be of, if it is a picture models take."""
    if encoded is None:
        return None
    head = binascii.a2b_base64(encoded[:_HEAD_CHARS])
    for magic, kind in PICTURES.items():
        if head.startswith(magic) and (kind != "image/webp" or head[8:12] == _WEBP):
            return kind
    return None


def data_url_type(text: str) -> str | None:
    """The MIME type in the head of a base64 data URL, which may be empty; None where it is none."""
    found = _DATA_URL.match(text[:_URL_HEAD_CHARS])
    return None if found is None else found[1] or ""
