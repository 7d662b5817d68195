"""The logins of all backends of one gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatemini.backends.oauth.interface import Hide
from gatemini.config.model.backend import BackendConfig

if TYPE_CHECKING:
    from gatemini.backends.oauth.credentials import Credentials


class Logins:
    """Makes the logins of backends; `hide` learns their tokens."""

    def __init__(self, hide: Hide) -> None:
        self._hide = hide

    def of(self, config: BackendConfig, who: str = "") -> Credentials | None:
        """The login to one backend for a principal, None for a backend without logins."""
        if config.oauth is None:
            return None
        # A tenth of a second of imports, which a gateway without logins does not need.
        from gatemini.backends.oauth.credentials import Credentials  # noqa: PLC0415
        from gatemini.backends.oauth.vault import FileVault  # noqa: PLC0415

        return Credentials(config, config.oauth, FileVault(), self._hide, who)
