"""Grants that no call waits for, in the store that replicas share: any replica may receive the call that they admit.

A grant that is given while its call waits is used by the replica of that call, and is not in the store. Each grant is
bound to a term of its policy: a random id, which is deleted when a replica puts that policy in force after another one,
so that no grant from before is valid again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import deque
from dataclasses import astuple

import anyio

from gatemini.config.model.values.durations import MAX_SECONDS
from gatemini.errors import StateUnavailable
from gatemini.policy.approvals.grants import KEPT_SECONDS, Approval, GrantStore, State
from gatemini.policy.approvals.subject import Subject
from gatemini.state.store import StateStore

SESSION_SECONDS = 3600.0
"""How long a grant for a session is remembered: no replica knows when a session named by its client has ended."""
TERM_SECONDS = MAX_SECONDS
"""How long a term is kept after its last grant: no grant is remembered for longer."""
IN_FORCE = "policy:in_force"
"""The revision that a replica has put in force last."""

logger = logging.getLogger(__name__)


class SharedGrants:
    """The grants of all replicas."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._changes: deque[str] = deque()
        """Revisions that this replica has put in force and whose terms it has not ended in the store yet."""
        self._following = anyio.Lock()

    def put_in_force(self, revision: str) -> None:
        """Note that this replica has another policy from now on."""
        self._changes.append(revision)

    async def follow(self) -> None:
        """End the term of each policy that this replica has put in force after another one. Raises StateUnavailable."""
        async with self._following:
            while self._changes:
                revision = self._changes[0].encode()
                [last] = await self._store.get(IN_FORCE)
                if last != revision:
                    await self._store.delete(_term(self._changes[0]))
                    await self._store.put(IN_FORCE, revision, TERM_SECONDS)
                self._changes.popleft()

    async def use(self, subject: Subject) -> str | None:
        """Return the id of the approval that admits this call, and delete its grant unless it is remembered.

        Raises StateUnavailable.
        """
        await self.follow()
        term, remembered = await self._store.get(_term(subject.revision), _key("remembered", subject))
        if (ident := _ident(remembered, term)) is not None:
            return ident
        ident = _ident(await self._store.take(_key("grant", subject)), term)
        return ident if ident is not None and await self.claim(ident) else None

    async def claim(self, ident: str) -> bool:
        """Use the grant of this approval up; False where another call has. Raises StateUnavailable."""
        return await self._store.put_new(f"used:{ident}", b"", KEPT_SECONDS)

    async def keep(self, approval: Approval, local: GrantStore) -> None:
        """Move a grant from the memory of this replica to the store; it stays in memory if the store cannot be reached."""
        subject, remember = approval.subject, approval.ask.remember
        unclaimed = not approval.waiting  # before anything is awaited: the call may stop waiting meanwhile
        try:
            await self.follow()
            value = await self._current_term(subject.revision) + b" " + approval.id.encode()
            if remember != "call" and not approval.void:
                lasting = SESSION_SECONDS if remember == "session" else remember
                await self._store.put(_key("remembered", subject), value, lasting)
                local.forget(subject)
            if unclaimed and approval.state is State.GRANTED:
                await self._store.put(_key("grant", subject), value, KEPT_SECONDS)
                local.take(approval)
        except StateUnavailable as error:
            logger.warning("%s is granted on this replica alone: %s", approval.id, error.message)

    async def _current_term(self, revision: str) -> bytes:
        key, new = _term(revision), secrets.token_hex(8).encode()
        await self._store.put_new(key, new, TERM_SECONDS)
        await self._store.renew(TERM_SECONDS, key, IN_FORCE)
        [term] = await self._store.get(key)
        return term or new


def _ident(value: bytes | None, term: bytes | None) -> str | None:
    """Return the id of the approval that a value names, if it is of this term."""
    if value is None or term is None:
        return None
    of, _, ident = value.partition(b" ")
    return ident.decode() if of == term else None


def _term(revision: str) -> str:
    return f"policy:term:{revision}"


def _key(kind: str, subject: Subject) -> str:
    text = json.dumps(astuple(subject))
    return f"{kind}:{hashlib.sha256(text.encode()).hexdigest()}"
