"""The logins of all backends of one gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gatemini.backends.oauth.interface import Hide
from gatemini.config.model.backend import BackendConfig
from gatemini.state.store import StateStore

if TYPE_CHECKING:
    from gatemini.backends.oauth.credentials import Credentials


class Logins:
    """Makes the logins of backends; `hide` learns their tokens. They are kept in a shared `store`, else in files."""

    def __init__(self, hide: Hide, store: StateStore) -> None:
        self._hide = hide
        self._store = store

    def of(self, config: BackendConfig, who: str = "") -> Credentials | None:
        """The login to one backend for a principal, None for a backend without logins."""
        if config.oauth is None:
            return None
        # A tenth of a second of imports, which a gateway without logins does not need.
        from gatemini.backends.oauth.credentials import Credentials  # noqa: PLC0415
        from gatemini.backends.oauth.vault import FileVault, StoreVault  # noqa: PLC0415

        vault = StoreVault(self._store) if self._store.shared else FileVault()
        return Credentials(config, config.oauth, vault, self._hide, who)
