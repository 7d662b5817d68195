"""The TLS context of all clients of this process."""

from __future__ import annotations

import functools
import ssl

import httpx2


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the context, cached because reading the certificate store takes tens of milliseconds."""
    return httpx2.create_ssl_context()
