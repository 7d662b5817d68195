"""The audit log of one running gateway: what is recorded and when, waiting for the disk, keeping what cannot be written.

Records are written to the file at once, on the event loop: that is one system call of a few microseconds. Waiting for
the disk happens in a thread (`run`); with `fsync: each` the intents that came meanwhile share one wait.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from gatemini import __version__
from gatemini.config.model.audit import AuditConfig
from gatemini.config.model.schema import Config
from gatemini.config.variables.redaction import Redactor
from gatemini.errors import AuditFailed
from gatemini.policy.audit.anchors import is_anchored, send_anchor
from gatemini.policy.audit.arguments import Kept, read_key
from gatemini.policy.audit.call_records import CallRecords
from gatemini.policy.audit.disk import Disk, Lost
from gatemini.policy.audit.files import unjoined_heads
from gatemini.policy.audit.record import Head
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallEnd, CallFacts

SYNC_SECONDS = 1.0
"""With `fsync: second`: records of one second share one wait for the disk."""
MOST_WAITING = 10_000
"""Records kept in memory while the disk takes none; further ones are counted as lost."""
logger = logging.getLogger(__name__)


class AuditLog:
    """The log of one instance; `run` must be running for `fsync` and anchors. Nothing is written before `start` or the
    first record.
    """

    def __init__(
        self,
        config: AuditConfig,
        folder: Path,
        key_file: Path,
        redactor: Redactor,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.instance = secrets.token_hex(8)
        self._about = about or {}
        """What the start record says of the gateway."""
        self._key_file = key_file
        self._kept: Kept | None = None
        self._redactor = redactor
        self._calls = CallRecords(self.instance, redactor)
        self._disk = Disk(
            folder,
            self.instance,
            rotate_bytes=int(config.rotate_mb * (1 << 20)),
            keep=config.keep,
            forced=config.fsync != "none",
        )
        self._joins: list[Head] = []
        self._waiting: deque[bytes] = deque()
        self._clear = False
        """Whether the next record can be written at once: nothing has to come before it."""
        self._lost = 0
        self._lost_since: datetime | None = None
        self._write_error: OSError | None = None
        self._sync_error: OSError | None = None
        self.synced = 0
        """The last record that is known to be on the disk."""
        self._written = anyio.Event()
        """Set while a record waits for a sync, to wake the task that syncs."""
        self._sync_done = anyio.Event()
        self._anchored = 0
        self._anchor_due = anyio.Event()

    # -- records -----------------------------------------------------------------------------------

    async def intent(
        self, facts: CallFacts, decision: Decision, *, revision: str = "", labels: Sequence[str] = ()
    ) -> int:
        """Write the record of a call that is about to leave; return its number, 0 where it was lost under `warn`.

        Raises AuditFailed under `block` where it cannot be written, or not forced to the disk under `fsync: each`.
        """
        try:
            if self._sync_error is not None and self.config.on_failure == "block":
                raise self._sync_error
            kept = await (self._kept or self.prepare()).of(facts.arguments)
            seq = self._put(self._calls.intent(facts, decision, revision, kept, labels))
        except OSError as error:
            self._failed(error)
            if self.config.on_failure == "block":
                raise self._refusal() from error
            self._count_lost()
            return 0
        if self.config.fsync == "each":
            await self._durable(seq, facts)
        return seq

    def outcome(self, intent: int, facts: CallFacts, end: CallEnd, *, labels: Sequence[str] = ()) -> None:
        """Write how a call ended. `intent` is the number of its intent."""
        self._put_or_keep(self._calls.outcome(intent, facts, end, labels))

    def decision(self, facts: CallFacts, decision: Decision, *, revision: str = "") -> None:
        """Write that a call was refused, or that a person is asked; the intent of an admitted call says the rest."""
        self._put_or_keep(self._calls.decision(facts, decision, revision))

    def event(self, kind: str, *, needed: bool = False, **fields: Any) -> None:
        """Write any other event: an approval, a registration, a pin, a changed configuration, a login.

        `needed`: what follows may not happen unrecorded, so that AuditFailed is raised under `block`.
        """
        record = self._disk.stamped(kind, **self._redactor.arguments(fields))
        if not (needed and self.config.on_failure == "block"):
            self._put_or_keep(record)
            return
        try:
            self._put(record)
        except OSError as error:
            self._failed(error)
            raise self._refusal() from error

    def config_changed(self, before: Config, now: Config) -> None:
        """Write which sections a changed configuration has changed, if it has any."""
        changed = [key for key in Config.model_fields if getattr(before, key) != getattr(now, key)]
        if changed:
            self.event("config", changed=changed)

    # -- writing -----------------------------------------------------------------------------------

    def prepare(self) -> Kept:
        """Read the key and the heads of earlier instances, before the first record. Raises OSError."""
        key = read_key(self._key_file) if self.config.arguments != "none" else b""
        self._disk.make_folder()
        self._joins = unjoined_heads(self._disk.folder)
        self._kept = Kept(self.config.arguments, key, self._redactor.arguments)
        return self._kept

    def start(self) -> None:
        """Write the start record now, as a gateway does that serves clients."""
        try:
            if self._kept is None:
                self.prepare()
            self._begin()
        except OSError as error:
            self._failed(error)

    def _begin(self) -> None:
        if self._disk.seq == 0:
            begins = {"version": __version__, "pid": os.getpid(), **self._about, "joins": self._joins}
            self._disk.append(self._disk.stamped("start", **begins))

    def _catch_up(self) -> None:
        """Write what comes before the next record: the start, what waits, and how much was lost. Raises OSError."""
        if self._kept is None:
            self.prepare()
        self._begin()
        while self._waiting:
            self._disk.append(self._waiting[0])
            self._waiting.popleft()
        if self._lost:
            self._disk.append(self._disk.stamped("lost", records=self._lost, since=self._lost_since))
            self._lost, self._lost_since = 0, None
        self._clear = True
        if self._write_error is not None:
            self._write_error = None
            logger.warning("audit: records are written again")

    def _put(self, body: bytes) -> int:
        """Write a record after those that wait; return its number. Raises OSError."""
        if not self._clear:
            self._catch_up()
        seq = self._disk.append(body)
        self._written.set()
        if seq - self._anchored >= self.config.anchor.every or self._disk.has_pruned:
            self._disk.has_pruned = False  # an anchor vouches for the record of what was deleted
            self._anchor_due.set()
        return seq

    def _put_or_keep(self, body: bytes) -> None:
        """Write a record that no call waits for; one that cannot be written now is written before the next one."""
        try:
            self._put(body)
        except OSError as error:
            self._failed(error)
            if self.config.on_failure == "block" and len(self._waiting) < MOST_WAITING:
                self._waiting.append(body)
            else:
                self._count_lost()

    def _count_lost(self) -> None:
        self._lost += 1
        self._lost_since = self._lost_since or datetime.now(UTC)

    @property
    def problem(self) -> str | None:
        """Why records cannot be written now, and what follows; None while all is well."""
        error = self._write_error or self._sync_error
        if error is None:
            return None
        effect = "no call leaves" if self.config.on_failure == "block" else "calls leave unrecorded"
        why = f"{error.filename or self._disk.folder}: {error.strerror or error}"
        return f"audit records cannot be written, {effect}: {why}"

    def _failed(self, error: OSError) -> None:
        self._clear = False
        if self._write_error is None:
            self._write_error = error
            logger.error("%s", self.problem)

    def _refusal(self) -> AuditFailed:
        return AuditFailed(
            f"nothing was done: {self.problem}",
            hint="audit.on_failure is block: its owner must make room or repair the folder; calls work again by themselves",
        )

    # -- the disk, and anchors -----------------------------------------------------------------------

    async def _durable(self, seq: int, facts: CallFacts) -> None:
        """Wait until the record is on the disk; where that fails or is cancelled, the log says that the call was refused."""
        try:
            while self.synced < seq:
                await self._sync_done.wait()
                if self._sync_error is not None:
                    if self.config.on_failure == "block":
                        raise self._refusal() from self._sync_error
                    return
        except BaseException:
            self.outcome(seq, facts, CallEnd("refused", sent=False))
            raise

    async def run(
        self, serving: bool = False, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Force records to the disk and send anchors, until cancelled. `serving`: write the start record at once."""
        if serving:
            self.start()
        async with anyio.create_task_group() as tasks:
            if self.config.fsync != "none":
                tasks.start_soon(self._sync)
            if is_anchored(self.config.anchor):
                tasks.start_soon(self._anchor)
            task_status.started()

    async def _sync(self) -> None:
        while True:
            await self._written.wait()
            if self.config.fsync == "second":
                await anyio.sleep(SYNC_SECONDS)
            self._written = anyio.Event()
            seq = self._disk.seq
            try:
                await anyio.to_thread.run_sync(self._disk.sync)
            except OSError as error:
                self._sync_error = error
                logger.error("%s", self.problem)
                if isinstance(error, Lost):
                    self._disk.abandon()
            else:
                self._sync_error, self.synced = None, seq
            done, self._sync_done = self._sync_done, anyio.Event()
            done.set()
            if self._sync_error is not None:
                await anyio.sleep(SYNC_SECONDS)
                self._written.set()

    async def _anchor(self) -> None:
        while True:
            if (head := self._disk.head()) is not None:
                self._anchored = head.seq
                await self._send_anchor(head)
            await self._anchor_due.wait()
            self._anchor_due = anyio.Event()

    async def _send_anchor(self, head: Head) -> None:
        for failed in await send_anchor(self.config.anchor, head):
            logger.error("audit: the anchor of record %d was not sent: %s", head.seq, failed)
            self.event("anchor", seq_anchored=head.seq, failed=failed)

    async def close(self) -> None:
        """Write the stop record, close the file with a seal, and anchor the end."""
        if self._disk.seq == 0:
            return
        self._put_or_keep(self._disk.stamped("stop"))
        try:
            self._disk.seal()
            await anyio.to_thread.run_sync(self._disk.close)
        except OSError as error:
            self._failed(error)
        head = self._disk.head()
        if head is not None and is_anchored(self.config.anchor):
            for failed in await send_anchor(self.config.anchor, head):
                logger.error("audit: the anchor of the end was not sent: %s", failed)
