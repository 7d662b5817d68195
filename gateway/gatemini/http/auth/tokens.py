"""The token file: tokens that `gatemini token` makes, of which only hashes are kept."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, ValidationError

from gatemini.config.model.backend import Strict
from gatemini.errors import ConfigError, InvalidRequest
from gatemini.processes.own_files import others_may_write, read_own, replace_own
from gatemini.proxy.places import private_opener
from gatemini.upkeep.reload import FileState, file_state

logger = logging.getLogger(__name__)

PREFIX = "gtm_"
SECRET_BYTES = 32
MOST_BYTES = 16 << 20
HEAD = "# Made by `gatemini token`. A token is shown once; here is its SHA-256, from which nobody gets it back.\n"
_NO_HASH = hashlib.sha256(secrets.token_bytes(SECRET_BYTES)).hexdigest()


def _with_zone(moment: datetime) -> datetime:
    """Read a moment without a zone, as people write it into the file, as UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_with_zone)]


class TokenEntry(Strict):
    """One token in the file."""

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    client: str = Field(min_length=1, max_length=200)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    created: Moment
    expires: Moment | None = None
    revoked: Moment | None = None
    scopes: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """Globs: only tools that one matches may be called. None: the token has no limit."""

    def holds(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class _File(Strict):
    tokens: tuple[TokenEntry, ...] = ()


class TokenFile:
    """The tokens of one file, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, TokenEntry] = {}
        self._read: tuple[FileState, bool] | None = None
        """The file that was read, and whether others could write it, which a `chmod` changes without the state."""
        self.problem: str | None = None
        """Why no token of the file is valid; None where the file can be used."""

    def renew(self) -> None:
        """Read the file again if it has changed. A file that cannot be used has no tokens."""
        now = file_state(frozenset((self.path,))), others_may_write(self.path)
        if now == self._read:
            return
        self._read, self._entries, self.problem = now, {}, None
        try:
            self._entries = {each.id: each for each in read_tokens(self.path)}
        except FileNotFoundError:
            self.problem = f"{self.path}: there is no such file, so no token counts"
        except (OSError, ConfigError) as error:
            self.problem = f"{self.path}: no token counts: {error}"
        if self.problem:
            logger.warning("http.auth.tokens: %s", self.problem)

    @property
    def revoked(self) -> frozenset[str]:
        """The ids of revoked tokens."""
        self.renew()
        return frozenset(each.id for each in self._entries.values() if each.revoked is not None)

    def find(self, token: str) -> TokenEntry | None:
        """Return the entry of a token that is valid now."""
        self.renew()
        entry = self._entries.get(token.removeprefix(PREFIX).partition("_")[0])
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        # Compared in constant time, and also where there is no such id.
        same = hmac.compare_digest(given, entry.sha256 if entry is not None else _NO_HASH)
        return entry if same and entry is not None and entry.holds(datetime.now(UTC)) else None

    def holds(self, found: TokenEntry) -> bool:
        """Whether a token that was found is still valid, with the same limits."""
        self.renew()
        return self._entries.get(found.id) == found and found.holds(datetime.now(UTC))


def read_tokens(path: Path) -> tuple[TokenEntry, ...]:
    """Return the entries of a file. Raises OSError or ConfigError."""
    if others_may_write(path):
        raise ConfigError(f"{path} may be written by others: chmod go-w {path}")
    try:
        read = yaml.safe_load(read_own(path, MOST_BYTES))
        return _File.model_validate(read or {}).tokens
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} is no YAML: {getattr(error, 'problem', None) or 'unreadable'}") from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise ConfigError(f"{path}: {place}: {fault['msg']}") from error


def create(
    path: Path, client: str, scopes: tuple[str, ...], tools: tuple[str, ...] | None, lasting: timedelta | None
) -> tuple[str, TokenEntry]:
    """Add a token to the file; return the token, which is not kept, and its entry."""
    ident = secrets.token_hex(6)
    token = f"{PREFIX}{ident}_{secrets.token_urlsafe(SECRET_BYTES)}"
    now = datetime.now(UTC).replace(microsecond=0)
    entry = TokenEntry(
        id=ident,
        client=client,
        sha256=hashlib.sha256(token.encode()).hexdigest(),
        created=now,
        expires=now + lasting if lasting is not None else None,
        scopes=scopes,
        tools=tools,
    )
    with _changing(path) as entries:
        entries.append(entry)
    return token, entry


def revoke(path: Path, ident: str) -> list[TokenEntry]:
    """Revoke the token of this id, or all tokens of a client. Raises InvalidRequest if there is none."""
    now = datetime.now(UTC).replace(microsecond=0)
    with _changing(path) as entries:
        found = [each for each in entries if ident in (each.id, each.client) and each.revoked is None]
        for each in found:
            entries[entries.index(each)] = each.model_copy(update={"revoked": now})
    if not found:
        raise InvalidRequest(
            f"there is no token or client {ident} to revoke", hint="gatemini token list shows them"
        )
    return found


@contextmanager
def _changing(path: Path) -> Iterator[list[TokenEntry]]:
    """Lock a file, and write its entries back when the context ends; other commands wait meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w", opener=private_opener) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            entries = list(read_tokens(path))
        except FileNotFoundError:
            entries = []
        yield entries
        plain = [each.model_dump(mode="json", exclude_none=True) for each in entries]
        text = HEAD + yaml.safe_dump({"tokens": plain}, sort_keys=False, allow_unicode=True)
        replace_own(path, text.encode(), lasting=True)
