"""Where logins are kept: sealed files, and the three places of their key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from gatemini.backends.oauth.login_record import Client, Kept, Login
from gatemini.backends.oauth.vault import FileVault, key_of
from gatemini.errors import ConfigError

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
    assert modes(vault.folder) == {f"{WEB}.sealed": 0o600, "key": 0o600}
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
