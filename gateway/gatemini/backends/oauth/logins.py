"""The logins of all backends of one gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from cachetools import LRUCache

from gatemini.backends.calls.callers import Caller
from gatemini.backends.oauth.interface import Hide, TokenSource
from gatemini.config.model.backend import BackendConfig
from gatemini.state.store import StateStore

if TYPE_CHECKING:
    from gatemini.backends.oauth.credentials import Credentials

CLIENT_TOKENS = 10_000


class Logins:
    """Makes the logins of backends, which are stored in a shared `store`, else in files. `hide` gets their tokens."""

    def __init__(self, hide: Hide, store: StateStore, who: str = "") -> None:
        self._hide = hide
        self._store = store
        self._who = who
        """The principal of logins for which none is given."""
        self.exchanges = False
        """Whether a backend exchanges the tokens of clients, so that these must be kept."""
        self.client_tokens: LRUCache[str, str] = LRUCache(CLIENT_TOKENS)
        """The token with which each principal has logged in last."""
        self._asking: dict[str, anyio.Event] = {}

    def of(self, config: BackendConfig, who: str = "") -> Credentials | None:
        """The login to one backend for a principal, None for a backend without logins."""
        if config.oauth is None:
            return None
        self.exchanges = self.exchanges or config.oauth.exchange is not None
        # A tenth of a second of imports, which a gateway without logins does not need.
        from gatemini.backends.oauth.credentials import Credentials  # noqa: PLC0415
        from gatemini.backends.oauth.vault import FileVault, StoreVault  # noqa: PLC0415

        vault = StoreVault(self._store) if self._store.shared else FileVault()
        return Credentials(config, config.oauth, vault, self._hide, who or self._who, self.client_tokens.get)

    async def ask(self, login: TokenSource, caller: Caller) -> bool:
        """Ask the person behind a caller to log in, one person at a time; return whether there is a login now."""
        if not caller.opens_urls:
            return False
        if (asking := self._asking.get(login.key)) is not None:
            await asking.wait()
            return not login.is_lacking
        from gatemini.backends.oauth.flows import ask_by_url  # noqa: PLC0415 - see above

        asking = self._asking[login.key] = anyio.Event()
        try:
            return await ask_by_url(login, caller)
        finally:
            del self._asking[login.key]
            asking.set()
