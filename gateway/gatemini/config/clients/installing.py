"""Decide what `gatemini install` and `uninstall` make of a client's file. Pure: texts in, texts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gatemini.config.clients.client_file import ClientFile
from gatemini.config.clients.own_entry import OWN_NAME, is_ours, merged
from gatemini.config.clients.table import Install
from gatemini.config.documents.text_edit import EditRefused

Status = Literal["added", "updated", "unchanged", "removed", "restored", "absent"]


class Foreign(Exception):
    """The client has another server under our name."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a client's file. `after` is its text, None for no file."""

    status: Status
    after: str | None
    taken: tuple[str, ...] = ()
    """Servers that an install takes out of the file."""
    given_back: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Servers of the backup that an uninstall without `--restore` leaves out."""
    keeps_backup: bool = False
    is_first: bool = False
    """Whether the file has had no entry of ours until now."""


def plan_install(
    file: ClientFile,
    install: Install,
    before: str | None,
    entry: Mapping[str, Any],
    *,
    force: bool,
    take: Sequence[str] = (),
) -> Change:
    """The file with our entry, and without the servers of `take`. Raises EditRefused and Foreign."""
    text = before or ""
    there = file.servers(text)
    old = there.get(OWN_NAME)
    if OWN_NAME in there and not is_ours(old, install) and not force:
        raise Foreign
    wanted = merged(old, entry) if is_ours(old, install) else dict(entry)
    taken = tuple(name for name in take if name in there)
    after = file.with_entry(file.without(text, taken), OWN_NAME, wanted)
    if after == before:
        return Change("unchanged", after)
    status: Status = "added" if OWN_NAME not in there else "updated"
    return Change(status, after, taken=taken, is_first=not is_ours(old, install))


def plan_uninstall(
    file: ClientFile, install: Install, before: str | None, backup: str | None, *, restore: bool, force: bool
) -> Change:
    """The file without our entry, with `restore` also with the servers that were taken. Raises EditRefused, Foreign."""
    there = file.servers(before or "")
    missing = _missing(file, there, backup)
    if before is None or (OWN_NAME not in there and not (restore and missing)):
        return Change("absent", before, waiting=missing, keeps_backup=bool(missing))
    own = there.get(OWN_NAME)
    if own is not None and not is_ours(own, install) and not force:
        raise Foreign
    waiting, given_back = ((), missing) if restore else (missing, ())
    pristine = _pristine(file, before, backup, own, missing)
    if pristine is not None and not waiting:
        return Change("restored", pristine, given_back=given_back)
    if backup is None and own is not None and before == file.with_entry("", OWN_NAME, own):
        return Change("removed", None)  # an install has made the file
    after = file.without(before, [OWN_NAME])
    if given_back and backup is not None:
        after = file.with_those_of(after, backup, given_back)
    if backup is not None and not file.servers(after) and not file.has_section(backup):
        after = file.without_section(after)  # an install has made it
    return Change("removed", after, given_back=given_back, waiting=waiting, keeps_backup=bool(waiting))


def _missing(file: ClientFile, there: Mapping[str, Any], backup: str | None) -> tuple[str, ...]:
    """The servers of the backup that the file no longer has."""
    if backup is None:
        return ()
    try:
        return tuple(name for name in file.servers(backup) if name not in there and name != OWN_NAME)
    except EditRefused:
        return ()


def _pristine(
    file: ClientFile, before: str, backup: str | None, own: Any, missing: Sequence[str]
) -> str | None:
    """The backup, where an install alone made the file out of it: nothing else has changed since."""
    if backup is None:
        return None
    try:
        made = file.with_entry(file.without(backup, missing), OWN_NAME, own or {})
        if own is None:  # an uninstall without --restore came before
            made = file.without(made, [OWN_NAME])
    except EditRefused:
        return None
    return backup if made == before else None
