"""`secretref:keyring:` and `secret set --keyring`: the real library with a file as its keychain."""

from __future__ import annotations

import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from gatemini.config.model.schema import KeyringConfig, SecretsConfig
from gatemini.config.variables import keychain
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.config.variables.keychain import Keychain, keyring_settings
from gatemini.config.variables.references import SecretResolver
from gatemini.errors import ConfigError


def resolver(base: Path, **settings: Any) -> SecretResolver:
    return SecretResolver({}, SecretsConfig(**settings), base, base)


@pytest.fixture
def keychain_file(tmp_path: Path) -> Iterator[Path]:
    before, backend = keyring.get_keyring(), PlaintextKeyring()
    backend.file_path = str(tmp_path / "keyring.cfg")
    keyring.set_keyring(backend)
    yield tmp_path / "keyring.cfg"
    keyring.set_keyring(before)


def test_the_keychain_gives_what_was_put_there(keychain_file: Path, tmp_path: Path) -> None:
    keyring.set_password("gatemini", "gh", "value-one")
    keyring.set_password("other", "gh", "value-two")
    assert resolver(tmp_path).resolve("secretref:keyring:gh") == (
        "value-one",
        [("keyring:gh", "value-one")],
    )
    assert resolver(tmp_path).resolve("Bearer secretref:keyring:other/gh")[0] == "Bearer value-two"
    assert (
        resolver(tmp_path, keyring=KeyringConfig(service="other")).resolve("secretref:keyring:gh")[0]
        == "value-two"
    )
    with pytest.raises(SecretUnavailable, match="has no gone of the service gatemini") as caught:
        resolver(tmp_path).resolve("secretref:keyring:gone")
    assert caught.value.remedy == "gatemini secret set --keyring gone"


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(SecretUnavailable, match="extra keyring") as caught:
        resolver(tmp_path).resolve("secretref:keyring:gh")
    assert "pip install '.[keyring]'" in caught.value.remedy


def test_a_keychain_that_fails_or_hangs_is_an_error_within_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    class Stuck(PlaintextKeyring):  # type: ignore[misc] # the library has no types
        def get_password(self, service: str, name: str) -> str | None:
            if name == "slow":
                held.wait()
            raise RuntimeError("value-one was here")

    before = keyring.get_keyring()
    keyring.set_keyring(Stuck())
    monkeypatch.setattr(keychain, "KEYRING_SECONDS", 0.05)
    try:
        with pytest.raises(SecretUnavailable, match="gave no answer within"):
            resolver(tmp_path).resolve("secretref:keyring:slow")
        held.set()
        monkeypatch.setattr(keychain, "KEYRING_SECONDS", 10)
        with pytest.raises(SecretUnavailable, match=r"the keychain failed \(RuntimeError\)\Z"):
            resolver(tmp_path).resolve("secretref:keyring:x")
    finally:
        held.set()
        keyring.set_keyring(before)


def test_names_of_kept_values_are_listed_and_forgotten(keychain_file: Path, tmp_path: Path) -> None:
    chain = Keychain(KeyringConfig(), tmp_path / "conf" / "keyring.json")
    assert chain.put("gh", "value-one") == "gatemini"
    assert chain.put("team/gh", "value-two") == "team"
    assert chain.names() == ["gh", "team/gh"]
    assert "value" not in chain.index.read_text()
    assert stat.S_IMODE(chain.index.stat().st_mode) == 0o600
    assert resolver(tmp_path).resolve("secretref:keyring:team/gh")[0] == "value-two"
    assert chain.remove("gh")
    assert not chain.remove("gh")
    assert chain.names() == ["team/gh"]
    with pytest.raises(ConfigError, match="not a keychain name"):
        chain.put("a b", "x")


def test_the_service_is_taken_from_a_configuration_that_is_wrong_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("secrets: {keyring: {service: team}}\nbackends: {a: {comand: x}}\n")
    assert keyring_settings(file).service == "team"
    file.write_text("secrets: [")
    assert keyring_settings(file).service == keyring_settings(None).service == "gatemini"
