"""TLS of this server, with certificates that are read again when their files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from gatemini.config.model.http.server import TlsConfig
from gatemini.errors import ConfigError
from gatemini.upkeep.reload import FileState, file_state

logger = logging.getLogger(__name__)


class Tls:
    """The TLS context of new connections."""

    def __init__(self, config: TlsConfig, folder: Path) -> None:
        self._cert = folder / config.cert
        self._key = folder / config.key if config.key else None
        self._ca = folder / config.client_ca if config.client_ca else None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        if self._ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
        self._read = self._files()
        try:
            self._load()
        except OSError as error:
            raise ConfigError(f"http.tls: {self._cert}: {error.strerror or error}") from error

    def renew(self) -> None:
        """Read changed files for new connections; files that cannot be used change nothing."""
        now = self._files()
        if now == self._read:
            return
        self._read = now
        try:
            self._load()
            logger.info("http.tls: the certificate was read again")
        except OSError as error:
            logger.warning("http.tls: the changed files are not used: %s", error.strerror or error)

    def _files(self) -> FileState:
        return file_state(frozenset(filter(None, (self._cert, self._key, self._ca))))

    def _load(self) -> None:
        self.context.load_cert_chain(self._cert, self._key)
        if self._ca is not None:
            # Adds only: connections of an authority that was removed are refused after a restart.
            self.context.load_verify_locations(self._ca)
