"""Grants that no call waits for, in the state store of several replicas: the call that they admit may reach any of them.

If an approval is decided while its call waits, the replica of that call uses the grant without the store.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import astuple

from gatemini.errors import StateUnavailable
from gatemini.policy.approvals.grants import KEPT_SECONDS, Approval, GrantStore
from gatemini.policy.approvals.subject import Subject
from gatemini.state.store import StateStore

SESSION_SECONDS = 3600.0
"""How long a grant for a session is remembered: no replica knows when a session that the client names has ended."""
logger = logging.getLogger(__name__)


class SharedGrants:
    """The grants of all replicas."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def use(self, subject: Subject) -> str | None:
        """Return the id of the approval that admits this call, and use it up unless it is remembered.

        Raises StateUnavailable.
        """
        [remembered] = await self._store.get(_key("remembered", subject))
        found = remembered or await self._store.take(_key("grant", subject))
        return found.decode() if found is not None else None

    async def keep(self, approval: Approval, local: GrantStore) -> None:
        """Move a grant of this replica to the store; it stays in `local` if the store cannot be reached."""
        subject, ident = approval.subject, approval.id.encode()
        remember = approval.ask.remember
        try:
            if remember != "call":
                lasting = SESSION_SECONDS if remember == "session" else remember
                await self._store.put(_key("remembered", subject), ident, lasting)
                local.forget(subject)
            if not approval.waiting:
                await self._store.put(_key("grant", subject), ident, KEPT_SECONDS)
                local.take(approval)
        except StateUnavailable as error:
            logger.warning("%s is granted on this replica alone: %s", approval.id, error.message)


def _key(kind: str, subject: Subject) -> str:
    text = json.dumps(astuple(subject))
    return f"{kind}:{hashlib.sha256(text.encode()).hexdigest()}"
