"""One client's file as bytes: read, edit in place, replace, keep the first state, and give it back."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatemini.config.documents import json_edit, toml_edit
from gatemini.config.documents.find import MAX_BYTES
from gatemini.config.documents.text_edit import EditRefused, value_at
from gatemini.processes.own_files import replace_own

BACKUP = ".gatemini-backup"
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """Where a client keeps its servers. The texts of its methods are whole files."""

    path: Path
    section: tuple[str, ...]

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    @property
    def backup(self) -> Path:
        return self.path.with_name(self.path.name + BACKUP)

    def servers(self, text: str) -> dict[str, Any]:
        """The servers of the file. Raises EditRefused."""
        found = self._section(text)
        return found if isinstance(found, dict) else {}

    def has_section(self, text: str) -> bool:
        """Whether the file has a place for servers at all. Raises EditRefused."""
        return self._section(text) is not None

    def without_section(self, text: str) -> str:
        """The file without its place for servers. Raises EditRefused."""
        return self._removed(text, [self.section])

    def with_entry(self, text: str, name: str, entry: dict[str, Any]) -> str:
        """The file with this entry. Raises EditRefused."""
        bom, text = _split(text)
        edit = toml_edit.set_table if self.is_toml else json_edit.set_member
        return bom + edit(text, (*self.section, name), entry)

    def without(self, text: str, names: Sequence[str]) -> str:
        """The file without these entries. Raises EditRefused."""
        return self._removed(text, [(*self.section, name) for name in names])

    def with_those_of(self, text: str, source: str, names: Sequence[str]) -> str:
        """The file with these entries of `source`, another state of it, as that writes them. Raises EditRefused."""
        bom, text = _split(text)
        edit = toml_edit.copy_table if self.is_toml else json_edit.copy_member
        for name in names:
            text = edit(text, source.removeprefix(_BOM), (*self.section, name))
        return bom + text

    def _removed(self, text: str, paths: Sequence[tuple[str, ...]]) -> str:
        bom, text = _split(text)
        edit = toml_edit.remove_table if self.is_toml else json_edit.remove_member
        for path in paths:
            text = edit(text, path)
        return bom + text

    def _section(self, text: str) -> Any:
        parsed = toml_edit.parsed if self.is_toml else json_edit.parsed
        return value_at(parsed(text.removeprefix(_BOM)), self.section)


def _split(text: str) -> tuple[str, str]:
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def read_bytes(path: Path) -> bytes | None:
    """The file's bytes, None where there is none. Raises EditRefused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise EditRefused("is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EditRefused(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise EditRefused(f"is larger than {MAX_BYTES >> 20} MiB")
    return data


def decoded(data: bytes) -> str:
    """The text with its byte order mark. Raises EditRefused."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise EditRefused("is not written in UTF-8") from None


def kept_text(file: ClientFile) -> str | None:
    """The text of the backup, None where there is none. Raises EditRefused."""
    try:
        data = read_bytes(file.backup)
        text = None if data is None else decoded(data)
        file.servers(text or "")
    except EditRefused as error:
        raise EditRefused(f"has a backup that is not ours, {file.backup.name}: it {error}") from None
    return text


def check_writable(path: Path) -> None:
    """Raise EditRefused for a file that may not be replaced."""
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode
    except OSError:
        return  # there is none yet
    if not mode & stat.S_IWUSR:
        raise EditRefused(f"is read-only (mode {mode & 0o777:o}): chmod u+w lets it be written")
    if not os.access(real.parent, os.W_OK):
        raise EditRefused(f"cannot be written: {real.parent} is not writable")


def replace(path: Path, before: bytes | None, after: bytes) -> None:
    """Replace the file behind a link at once, with its mode and owner. Raises EditRefused."""
    real = Path(os.path.realpath(path))
    try:
        if read_bytes(path) != before:
            raise EditRefused("was changed by another program meanwhile")
        check_writable(path)
        facts = real.stat() if before is not None else None
        mode = facts.st_mode & 0o7777 if facts is not None else 0o600
        owner = (facts.st_uid, facts.st_gid) if facts is not None else None
        replace_own(real, after, mode=mode, owner=owner, lasting=True)
    except OSError as error:
        raise EditRefused(f"cannot be written: {error.strerror}") from None


def keep_backup(file: ClientFile, before: bytes, taken: Sequence[str]) -> bool:
    """Keep the bytes beside the file; an earlier backup stays as it is but for what it lacks of `taken`.

    Returns whether there was none. Raises EditRefused.
    """
    text = kept_text(file)
    if text is not None:
        new = [name for name in taken if name not in file.servers(text)]
        if new:
            replace(file.backup, text.encode(), file.with_those_of(text, decoded(before), new).encode())
        return False
    try:
        facts = file.path.stat()
        owner = (facts.st_uid, facts.st_gid)
        replace_own(file.backup, before, mode=facts.st_mode & 0o777, owner=owner, lasting=True)
    except OSError as error:
        raise EditRefused(f"cannot be written: its backup: {error.strerror}") from None
    return True
