"""Stored logins: one sealed file each (AES-GCM), or the store that replicas share."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import anyio
import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gatemini.backends.oauth.login_record import Kept
from gatemini.backends.oauth.requests import LoginBusy
from gatemini.config.model.schema import KeyringConfig
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.config.variables.keychain import Keychain, read_keychain
from gatemini.errors import ConfigError, StateUnavailable
from gatemini.folders import state_folder
from gatemini.processes.own_files import read_own, replace_own
from gatemini.state.store import StateStore

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

VARIABLE = "GATEMINI_TOKEN_KEY"
LEAST_CHARACTERS = 32
KEY_FILE = "key"
IN_KEYCHAIN = "login-key"
NONCE_BYTES = 12
KEY_BYTES = 32
"""Sizes, and the names of the key that seals the files: a variable, an entry of the keychain, a file beside them."""

MOST_BYTES = 1 << 20
TURN_SECONDS = 60.0
"""How long a turn may last; then its process counts as dead where nothing else tells.

Longer than finding the issuer, registering with it and one request for tokens take at most together: else two processes
would send the same refresh token.
"""
WAIT_SECONDS = TURN_SECONDS + 5.0
"""How long a process waits for its turn: longer than any turn lasts."""
POLL_SECONDS = 0.05
"""Between two attempts to take a turn that another process has."""
RELEASE_SECONDS = 2.0
"""How long the state store may take to give up a turn; later it ends by itself."""
KEPT_SECONDS = 400 * 24 * 3600.0
"""How long a shared store keeps a login that is not renewed."""
_PREFIX = "login:"


def key_of(backend: str, url: str, principal: str) -> str:
    """Return the key of a login, which depends on the backend's address and the principal."""
    named = sha256("\0".join((url, principal)).encode()).hexdigest()
    return f"{backend}-{named[:24]}"


class Vault(Protocol):
    """Where logins are kept."""

    async def read(self, key: str) -> Kept: ...

    async def write(self, key: str, kept: Kept) -> None: ...

    async def remove(self, key: str) -> None: ...

    async def version(self, key: str) -> object:
        """Return a value that changes with each write; cheaper than reading."""
        ...

    def turn(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the turn to change a login, which one process has at a time. Raises LoginBusy."""
        ...


class FileVault:
    """Files below the folder of the gateway's state."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or state_folder() / "logins"

    async def read(self, key: str) -> Kept:
        return await anyio.to_thread.run_sync(self._read, key)

    def _read(self, key: str) -> Kept:
        path = self._path(key)
        try:
            sealed = read_own(path, MOST_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return Kept()
        try:
            return msgspec.json.decode(unseal(self.folder, sealed, key), type=Kept)
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError(
                f"the stored login {path} cannot be read: it was sealed with another key",
                hint="set GATEMINI_TOKEN_KEY as before, or run `gatemini login` again",
            ) from error

    async def write(self, key: str, kept: Kept) -> None:
        await anyio.to_thread.run_sync(self._write, key, kept)

    def _write(self, key: str, kept: Kept) -> None:
        sealed = seal(self.folder, msgspec.json.encode(kept), key)
        replace_own(self._path(key), sealed, lasting=True)

    async def remove(self, key: str) -> None:
        with suppress(FileNotFoundError):
            self._path(key).unlink()

    async def version(self, key: str) -> object:
        try:
            facts = os.stat(self._path(key))
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_ino, facts.st_size

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        path = self.folder / f".{key}.lock"
        try:
            turn = FileTurn(path)
        except OSError:  # no process can store anything there, so that none shares it
            yield
            return
        try:
            await wait_for_turn(turn.taken, str(path))
            yield
        finally:
            turn.release()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.sealed"


class StoreVault:
    """The store that replicas share, which seals what it keeps."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def read(self, key: str) -> Kept:
        [found] = await self._store.get(_PREFIX + key)
        return Kept() if found is None else msgspec.json.decode(found, type=Kept)

    async def write(self, key: str, kept: Kept) -> None:
        await self._store.put(_PREFIX + key, msgspec.json.encode(kept), KEPT_SECONDS)

    async def remove(self, key: str) -> None:
        await self._store.delete(_PREFIX + key)

    async def version(self, key: str) -> object:
        [found] = await self._store.get(_PREFIX + key)
        return found

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        lease, owner = f"{_PREFIX}turn:{key}", secrets.token_hex(8)
        try:
            await wait_for_turn(partial(self._store.lease, lease, owner, TURN_SECONDS), lease)
            yield
        finally:
            # Shielded: without it, a cancelled caller would keep all others waiting until the lease ends by itself. One
            # that was cancelled while it took the turn may have it, too.
            with suppress(StateUnavailable), anyio.move_on_after(RELEASE_SECONDS, shield=True):
                await self._store.release(lease, owner)


async def wait_for_turn(take: Callable[[], Awaitable[bool]], name: str) -> None:
    """Call `take` until it returns True. Raises LoginBusy after `WAIT_SECONDS`: nobody may act without the turn."""
    with anyio.move_on_after(WAIT_SECONDS):
        while not await take():  # noqa: ASYNC110 - another process has it
            await anyio.sleep(POLL_SECONDS)
        return
    raise LoginBusy(f"another process has been changing this login for {WAIT_SECONDS:g} s ({name})")


class FileTurn:
    """The turn that belongs to a file: its lock, which ends with its process, or a second file where there are no locks."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError where it cannot be made: then no process stores anything there."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._claim = path.with_name(f"{path.name}.claim")
        """The second file; it has the token of the turn that it stands for."""
        self._token = secrets.token_bytes(16)
        self._claimed = False

    def take(self) -> bool:
        """Take the turn; False while another process has it."""
        try:
            if fcntl is None:
                return self._claims()
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # such as ENOLCK and ENOTSUP of network file systems
            return self._claims()
        return True

    async def taken(self) -> bool:
        """Take the turn, as `wait_for_turn` calls it."""
        return self.take()

    def wait(self) -> bool:
        """Take the turn, blocking this thread; False where another process still has it after `WAIT_SECONDS`."""
        last = time.monotonic() + WAIT_SECONDS
        while not self.take():
            if time.monotonic() > last:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def release(self) -> None:
        """Give up the turn, if it was taken."""
        os.close(self._held)
        if self._claimed:
            with suppress(FileNotFoundError):
                # With another token it is that of a process which has the turn now, as this one took too long.
                if self._claim.read_bytes() == self._token:
                    self._claim.unlink()

    def _claims(self) -> bool:
        """Take the turn by making the second file; False while another process has it."""
        with suppress(FileNotFoundError):
            if time.time() - self._claim.stat().st_mtime < TURN_SECONDS:
                return self._claimed and self._claim.read_bytes() == self._token
            self._replace_claim()  # left behind by a process that was killed
            return False
        try:
            claim = os.open(self._claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        try:
            os.write(claim, self._token)
        finally:
            os.close(claim)
        self._claimed = True
        return True

    def _replace_claim(self) -> None:
        """Replace a stale second file. The next try to take the turn sees whether it has this token still.

        Of several processes that find it stale at one moment, the last one to replace it has the turn.
        """
        own = self._claim.with_name(f"{self._claim.name}.{self._token.hex()}")
        own.write_bytes(self._token)
        os.replace(own, self._claim)
        self._claimed = True


def seal(folder: Path, plain: bytes, name: str) -> bytes:
    """Encrypt, bound to a name: a sealed file that is renamed cannot be decrypted."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(_key(folder, make=True)).encrypt(nonce, plain, name.encode())


def unseal(folder: Path, sealed: bytes, name: str) -> bytes:
    """Decrypt. Raises ValueError for another key, ConfigError if there is none."""
    try:
        found = AESGCM(_key(folder, make=False)).decrypt(
            sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode()
        )
    except InvalidTag as error:
        raise ValueError("sealed with another key") from error
    return bytes(found)


def _key(folder: Path, *, make: bool) -> bytes:
    """Return the key, of the right size; `make` one where there is none yet. Raises ConfigError, OSError."""
    found = _stored_key(folder, make=make)
    if len(found) != KEY_BYTES:
        raise ConfigError(
            f"the key of the logins in {folder} has {len(found)} bytes, and needs {KEY_BYTES}",
            hint="restore it, or remove that folder and log in again",
        )
    return found


def _stored_key(folder: Path, *, make: bool) -> bytes:
    """Read the key from the variable, the file or the keychain; `make` one in the keychain if it works, else in a file."""
    given = os.environ.get(VARIABLE)
    if given:
        if len(given) < LEAST_CHARACTERS:
            raise ConfigError(
                f"{VARIABLE} has {len(given)} characters, and needs {LEAST_CHARACTERS} at least",
                hint="`openssl rand -base64 32` makes one",
            )
        return sha256(given.encode()).digest()
    if not make:
        return _kept_key(folder, make=False)
    with suppress(FileNotFoundError):  # a key that is there needs no turn
        return read_own(folder / KEY_FILE, KEY_BYTES)
    turn = FileTurn(folder / f".{KEY_FILE}.lock")  # else two processes would make a key each, and one be lost
    try:
        if not turn.wait():
            raise ConfigError(
                f"another process has been making the key of the logins in {folder} for too long"
            )
        return _kept_key(folder, make=True)
    finally:
        turn.release()


def _kept_key(folder: Path, *, make: bool) -> bytes:
    """Read the key from the file or the keychain; `make` one where both have none."""
    with suppress(FileNotFoundError):
        return read_own(folder / KEY_FILE, KEY_BYTES)
    keychain = KeyringConfig()
    try:
        return bytes.fromhex(read_keychain(keychain, IN_KEYCHAIN))
    except (SecretUnavailable, ValueError) as error:
        if not make or any(folder.glob("*.sealed")):  # another key would make those useless
            raise ConfigError(
                f"the key of the logins in {folder} cannot be had: {error}",
                hint=f"unlock the keychain, set {VARIABLE}, or remove that folder and log in again",
            ) from error
    made = secrets.token_bytes(KEY_BYTES)
    try:
        Keychain(keychain, folder / "keychain.json").put(IN_KEYCHAIN, made.hex())
    except ConfigError:
        replace_own(folder / KEY_FILE, made, lasting=True)
    return made
