"""The key with which a daemon seals what it writes of its sessions.

The key is in the runtime folder, which the system empties; the sealed files are in the state folder, so that a copy of
that folder alone cannot be read. The next daemon of the same place finds it there.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from gatemini.config.model.schema import Config
from gatemini.processes.own_files import read_own, replace_own
from gatemini.proxy.places import Place

KEY_BYTES = 32

logger = logging.getLogger(__name__)


def seal_for(config: Config, place: Place) -> Seal | None:
    """Return what seals the sessions of a daemon; None where the profile leaves them as they are."""
    return Seal(Path(place.folder, f"{place.key}.seal")) if config.profile == "locked" else None


class Seal:
    """AES-256-GCM with the key in a file, which is made where there is none."""

    def __init__(self, path: Path) -> None:
        try:
            key = read_own(path, KEY_BYTES)
        except OSError:
            key = b""
        if len(key) != KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            try:
                replace_own(path, key)
            except OSError as error:
                logger.warning("the next daemon cannot read what this one seals: %s", error)
        self._codec = AESGCMRequestStateCodec([key])

    def seal(self, data: bytes) -> bytes:
        return self._codec.seal(data).encode("ascii")

    def unseal(self, data: bytes) -> bytes:
        """Raises ValueError for what was not sealed with this key."""
        try:
            return self._codec.unseal(data.decode("ascii"))
        except InvalidRequestState as error:
            raise ValueError(f"it was not sealed by this daemon: {error}") from error
