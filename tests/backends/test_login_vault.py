"""Where logins are kept: sealed files, and the three places of their key."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from gatemini.backends.oauth import vault as vaults
from gatemini.backends.oauth.login_record import Client, Kept, Login
from gatemini.backends.oauth.requests import LoginBusy
from gatemini.backends.oauth.vault import FileTurn, FileVault, StoreVault, key_of
from gatemini.errors import ConfigError
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio
KEPT = Kept(
    Login("https://id.example.com", "https://id.example.com/token", "r", Client("c"), access_token="t" * 30)
)
WEB = key_of("web", "https://mcp.example.com/mcp", "")


@pytest.fixture
def keychain(tmp_path: Path) -> Iterator[None]:
    before, backend = keyring.get_keyring(), PlaintextKeyring()
    backend.file_path = str(tmp_path / "keyring.cfg")
    keyring.set_keyring(backend)
    yield
    keyring.set_keyring(before)


@pytest.fixture
def no_keychain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def test_without_a_keychain_the_key_is_a_private_file_beside_the_logins(
    tmp_path: Path, no_keychain: None
) -> None:
    vault = FileVault(tmp_path / "logins")
    await vault.write(WEB, KEPT)
    assert modes(vault.folder) == {f"{WEB}.sealed": 0o600, "key": 0o600, ".key.lock": 0o600}
    assert await FileVault(tmp_path / "logins").read(WEB) == KEPT
    assert b"t" * 30 not in (vault.folder / f"{WEB}.sealed").read_bytes()


async def test_where_a_keychain_works_it_has_the_key(tmp_path: Path, keychain: None) -> None:
    vault = FileVault(tmp_path / "logins")
    await vault.write(WEB, KEPT)
    assert "key" not in modes(vault.folder)
    assert await vault.read(WEB) == KEPT
    keyring.delete_password(
        "gatemini", "login-key"
    )  # locked, or another user's: no new key makes the stored logins useless
    with pytest.raises(ConfigError, match="cannot be had"):
        await vault.write(WEB, KEPT)


async def test_a_key_of_the_environment_comes_first_and_another_one_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_keychain: None
) -> None:
    vault = FileVault(tmp_path / "logins")
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "k" * 32)
    await vault.write(WEB, KEPT)
    assert "key" not in modes(vault.folder)
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "l" * 32)
    with pytest.raises(ConfigError, match="sealed with another key"):
        await vault.read(WEB)
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "short")
    with pytest.raises(ConfigError, match="5 characters, and needs 32"):
        await vault.write(WEB, KEPT)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vaults, "WAIT_SECONDS", 0.2)


@pytest.fixture(params=["locks", "no locks"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if request.param == "no locks":
        monkeypatch.setattr(vaults.fcntl, "flock", refuse)


async def test_two_processes_do_not_make_a_key_each(
    tmp_path: Path, no_keychain: None, locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FileTurn(tmp_path / ".key.lock")
    assert other.take()

    def ends_meanwhile(_: float) -> None:
        (tmp_path / "key").write_bytes(b"k" * 32)
        other.release()

    monkeypatch.setattr(vaults.time, "sleep", ends_meanwhile)
    await FileVault(tmp_path).write(WEB, KEPT)
    assert (tmp_path / "key").read_bytes() == b"k" * 32
    assert await FileVault(tmp_path).read(WEB) == KEPT


async def test_a_key_that_another_process_never_ends_making_is_an_error_and_none_is_made(
    tmp_path: Path, no_keychain: None, locks: None, impatient: None
) -> None:
    other = FileTurn(tmp_path / ".key.lock")
    assert other.take()
    with pytest.raises(ConfigError, match="another process"):
        await FileVault(tmp_path).write(WEB, KEPT)
    assert not (tmp_path / "key").exists()
    other.release()
    await FileVault(tmp_path).write(WEB, KEPT)


@pytest.mark.parametrize("shared", [False, True])
async def test_nothing_is_changed_without_the_turn_however_long_another_process_has_it(
    tmp_path: Path, locks: None, impatient: None, shared: bool
) -> None:
    store = MemoryStore()
    one, two = (StoreVault(store) if shared else FileVault(tmp_path) for _ in range(2))
    async with one.turn(WEB):
        with pytest.raises(LoginBusy, match="has been changing this login"):
            async with two.turn(WEB):
                pytest.fail("two processes have the turn")
    async with two.turn(WEB):
        pass
    assert not any(name.endswith(".claim") for name in os.listdir(tmp_path))


def test_without_locks_the_turn_of_a_process_that_was_killed_ends_by_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    monkeypatch.setattr(vaults, "fcntl", None)
    left = FileTurn(tmp_path / ".web.lock")
    assert left.take()
    [claim] = tmp_path.glob(".*.claim")
    assert not FileTurn(tmp_path / ".web.lock").take()
    os.utime(claim, (0, time.time() - vaults.TURN_SECONDS - 1))
    assert FileTurn(tmp_path / ".web.lock").wait()
    left.release()  # it was not killed, but took too long
    assert not FileTurn(tmp_path / ".web.lock").take()


def test_of_two_processes_that_find_the_same_stale_turn_one_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vaults, "fcntl", None)
    assert FileTurn(tmp_path / ".web.lock").take()
    [claim] = tmp_path.glob(".*.claim")
    turns = [FileTurn(tmp_path / ".web.lock") for _ in range(2)]
    taken = []
    for turn in turns:
        os.utime(claim, (0, time.time() - vaults.TURN_SECONDS - 1))  # as it was when both looked
        taken.append(turn.take())
    taken += [turn.take() for turn in turns]
    assert taken.count(True) == 1
    for turn in turns:
        turn.release()
    assert not claim.exists()


async def test_a_sealed_file_in_the_place_of_another_one_does_not_count(
    tmp_path: Path, no_keychain: None
) -> None:
    vault, other = FileVault(tmp_path / "logins"), key_of("web", "https://elsewhere.example.com/mcp", "")
    await vault.write(WEB, KEPT)
    (vault.folder / f"{WEB}.sealed").rename(vault.folder / f"{other}.sealed")
    with pytest.raises(ConfigError, match="sealed with another key"):
        await vault.read(other)
    await vault.remove(other)
    assert await vault.read(other) == Kept()


async def test_a_login_belongs_to_one_backend_address_and_principal() -> None:
    keys = {
        key_of(*where)
        for where in (("web", "u", ""), ("web", "v", ""), ("web", "u", "ann"), ("own", "u", ""))
    }
    assert len(keys) == 4
