"""Keychain and Vault: the real library with a file, and Vault's HTTP API from a local double."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from gatemini.config import providers
from gatemini.config.keychain import Keychain, keyring_settings
from gatemini.config.load import Loaded
from gatemini.config.schema import KeyringConfig, SecretsConfig, VaultConfig
from gatemini.config.secrets import Redactor, SecretResolver
from gatemini.config.unavailable import SecretUnavailable
from gatemini.errors import ConfigError

Load = Callable[..., Loaded]
ID = "11111111-2222-3333-4444-555555555555"


def resolver(base: Path, environ: dict[str, str] | None = None, **settings: Any) -> SecretResolver:
    return SecretResolver(environ or {}, SecretsConfig(**settings), base, base)


# -- keyring -------------------------------------------------------------------------------------------


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
    settings = {"keyring": KeyringConfig(service="other")}
    assert resolver(tmp_path, **settings).resolve("secretref:keyring:gh")[0] == "value-two"
    with pytest.raises(SecretUnavailable, match="holds no gone of the service gatemini") as caught:
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
    monkeypatch.setattr(providers, "KEYRING_SECONDS", 0.05)
    try:
        with pytest.raises(SecretUnavailable, match="gave no answer within"):
            resolver(tmp_path).resolve("secretref:keyring:slow")
        held.set()
        monkeypatch.setattr(providers, "KEYRING_SECONDS", 10)
        with pytest.raises(SecretUnavailable, match=r"the keychain failed \(RuntimeError\)\Z"):
            resolver(tmp_path).resolve("secretref:keyring:x")
    finally:
        held.set()
        keyring.set_keyring(before)


def test_names_of_kept_values_are_listed_and_forgotten(keychain_file: Path, tmp_path: Path) -> None:
    keychain = Keychain(KeyringConfig(), tmp_path / "conf" / "keyring.json")
    assert keychain.put("gh", "value-one") == "gatemini"
    assert keychain.put("team/gh", "value-two") == "team"
    assert keychain.names() == ["gh", "team/gh"]
    assert "value" not in keychain.index.read_text()
    assert stat.S_IMODE(keychain.index.stat().st_mode) == 0o600
    assert resolver(tmp_path).resolve("secretref:keyring:team/gh")[0] == "value-two"
    assert keychain.remove("gh")
    assert not keychain.remove("gh")
    assert keychain.names() == ["team/gh"]
    with pytest.raises(ConfigError, match="no keychain name"):
        keychain.put("a b", "x")


def test_the_service_is_taken_from_a_configuration_that_is_wrong_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("secrets: {keyring: {service: team}}\nbackends: {a: {comand: x}}\n")
    assert keyring_settings(file).service == "team"
    file.write_text("secrets: [")
    assert keyring_settings(file).service == keyring_settings(None).service == "gatemini"


# -- vault ---------------------------------------------------------------------------------------------


class VaultDouble:
    """The part of Vault's HTTP API that is used, on a real socket."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.status = 200
        self.silent = threading.Event()
        self.hang = False
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token = self.headers["X-Vault-Token"]
                double.asked.append((self.path, token, self.headers["X-Vault-Namespace"]))
                if double.hang:
                    double.silent.wait()
                status, body = double.status, double.secrets.get(self.path)
                if token != "root-token-1":
                    status, answer = 403, {"errors": ["permission denied"]}
                elif body is None:
                    status, answer = (404 if status == 200 else status), {"errors": []}
                else:
                    answer = {"data": body}
                text = json.dumps(answer).encode()
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", "http://127.0.0.1:1/")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def put(self, path: str, data: Any, mount: str = "secret") -> None:
        self.secrets[f"/v1/{mount}/data/{path}"] = {"data": data, "metadata": {"version": 1}}

    def close(self) -> None:
        self.silent.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def vault() -> Iterator[VaultDouble]:
    double = VaultDouble()
    yield double
    double.close()


def test_vault_gives_a_field_of_a_secret(vault: VaultDouble, tmp_path: Path) -> None:
    vault.put("team/github", {"token": "value-one", "user": "me", "port": 8080})
    vault.put("one", {"only": "value-two"})
    environ = {"VAULT_ADDR": vault.address + "/", "VAULT_TOKEN": "root-token-1", "VAULT_NAMESPACE": "n"}
    secrets = resolver(tmp_path, environ)
    assert secrets.resolve("Bearer secretref:vault:team/github#token")[0] == "Bearer value-one"
    assert secrets.resolve("secretref:vault:team/github#port")[0] == "8080"
    assert secrets.resolve("secretref:vault:one")[0] == "value-two"
    assert vault.asked[0] == ("/v1/secret/data/team/github", "root-token-1", "n")
    with pytest.raises(SecretUnavailable, match="has no field pin") as caught:
        secrets.resolve("secretref:vault:team/github#pin")
    assert "port, token, user" in caught.value.remedy
    with pytest.raises(SecretUnavailable, match="has no field value"):
        secrets.resolve("secretref:vault:team/github")


def test_vault_is_configured_in_the_file_too(vault: VaultDouble, tmp_path: Path) -> None:
    vault.put("x", {"value": "value-one"}, mount="kv/team")
    settings = VaultConfig(address=vault.address, token="root-token-1", mount="kv/team")
    assert resolver(tmp_path, vault=settings).resolve("secretref:vault:x")[0] == "value-one"


@pytest.mark.parametrize("written", ["secretref:env:ROOT", "secretref:file:root", "secretref:exec:cat root"])
def test_the_token_of_vault_comes_from_a_simpler_provider_and_is_hidden(
    vault: VaultDouble, load: Load, tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vault.put("x", {"value": "value-one"})
    (tmp_path / "root").write_text("root-token-1\n")
    (tmp_path / "root").chmod(0o600)
    loaded = load(
        f"secrets: {{exec_allow: [cat], vault: {{address: '{vault.address}', token: '{written}'}}}}\n"
        "backends: {a: {command: x, env: {T: 'secretref:vault:x'}}}",
        {"ROOT": "root-token-1", "PATH": os.environ["PATH"]},
    )
    assert loaded.problems == ()
    assert loaded.config.backends["a"].env["T"] == "value-one"
    assert ("VAULT_TOKEN", "root-token-1") in loaded.secrets
    assert "root-token-1" not in Redactor(loaded.secrets).redact("said root-token-1")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        ("secretref:vault:own", "secrets.vault.token is not taken from there"),
        ("secretref:bws:own", "secrets.vault.token is not taken from there"),
        ("secretref:env:GONE", "secrets.vault.token: GONE is not set"),
        ("secretref:", "secrets.vault.token is not taken from there"),
        ("${GONE}", "the token of Vault is not set"),
    ],
)
def test_a_token_that_is_not_there_disables_only_who_needs_it(
    vault: VaultDouble, load: Load, token: str, says: str
) -> None:
    loaded = load(
        f"secrets: {{vault: {{address: '{vault.address}', token: '{token}'}}}}\n"
        "backends: {a: {command: x, env: {T: 'secretref:vault:x'}}, b: {command: x}}"
    )
    assert list(loaded.config.backends) == ["b"]
    assert says in loaded.disabled["a"]
    assert vault.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "secrets: {vault: {address: 'secretref:env:A'}}",
        "secrets: {vault: {namespace: 'secretref:env:A'}}",
        "secrets: {bws: {server_url: 'secretref:env:A'}}",
        "cache_path: 'secretref:env:A'",
        "semantic: {model: 'secretref:env:A'}",
    ],
)
def test_a_reference_that_nobody_resolves_is_refused_by_name(load: Load, text: str) -> None:
    try:
        said = "\n".join(map(str, load(text, {"A": "http://h"}).errors))
    except ConfigError as error:
        said = error.text()
    assert "a secretref: is not resolved here" in said
    assert text.split(":")[0] in said


@pytest.mark.parametrize(
    ("path", "token", "status", "says"),
    [
        ("gone", "root-token-1", 200, "has no secret gone"),
        ("x#a", "other-token-1", 200, "permission denied"),
        ("x#a", "root-token-1", 503, "sealed"),
        ("x#a", "root-token-1", 307, "HTTP 307"),
        ("deleted#a", "root-token-1", 200, "no current version"),
        ("#a", "root-token-1", 200, "a vault path is PATH"),
        ("x#a", "", 200, "token of Vault is not set"),
    ],
)
def test_what_vault_refuses_has_its_cause_and_no_token(
    vault: VaultDouble, tmp_path: Path, path: str, token: str, status: int, says: str
) -> None:
    vault.put("x", {"a": "value-one"})
    vault.put("deleted", None)
    vault.status = status
    with pytest.raises(SecretUnavailable, match=says) as caught:
        resolver(tmp_path, {"VAULT_ADDR": vault.address, "VAULT_TOKEN": token}).resolve(
            f"secretref:vault:{path}"
        )
    assert "token-1" not in caught.value.message + caught.value.remedy
    assert "value-one" not in caught.value.message + caught.value.remedy


@pytest.mark.parametrize(
    ("settings", "path", "says"),
    [
        ({"token": "tök"}, "x", "holds a character that a header cannot carry"),
        ({"token": "root-token-1\n"}, "x", "holds a character that a header cannot carry"),
        ({"namespace": "ö"}, "x", "holds a character that a header cannot carry"),
        ({"address": "http://[:1"}, "x", "make no URL|cannot be reached"),
        ({}, "a\x01b", "make no URL"),
        ({"ca_file": "/no/such.pem"}, "x", "/no/such.pem cannot be read as certificates"),
        (
            {"address": "http://me:hidden-one@127.0.0.1:1"},
            "x",
            "Vault at http://127.0.0.1:1 cannot be reached",
        ),
    ],
    ids=["token", "newline", "namespace", "address", "path", "certificates", "user in the address"],
)
def test_what_cannot_be_asked_of_vault_has_its_cause_and_no_password(
    tmp_path: Path, settings: dict[str, str], path: str, says: str
) -> None:
    vault = VaultConfig(**{"address": "http://127.0.0.1:1", "token": "root-token-1", **settings})
    with pytest.raises(SecretUnavailable, match=says) as caught:
        resolver(tmp_path, vault=vault).fetch("vault", path)
    assert "hidden-one" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("end", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
@pytest.mark.parametrize("reference", ["exec:echo ", "file:", "file:~/", "env:", "keyring:"])
def test_a_reference_that_the_system_cannot_take_is_unavailable(
    keychain_file: Path, tmp_path: Path, reference: str, end: str
) -> None:
    with pytest.raises(SecretUnavailable):
        resolver(tmp_path, exec_allow=["echo"]).resolve(f"secretref:{reference}{end}")


def test_a_silent_vault_is_waited_for_once(vault: VaultDouble, tmp_path: Path) -> None:
    vault.hang = True
    settings = VaultConfig(address=vault.address, token="root-token-1", timeout=0.1)
    secrets = resolver(tmp_path, vault=settings)
    for path in ("a", "b", "c"):
        with pytest.raises(SecretUnavailable, match="gave no answer within"):
            secrets.resolve(f"secretref:vault:{path}")
    assert len(vault.asked) == 1


def test_a_vault_that_is_not_there_disables_only_what_needs_it(load: Load) -> None:
    text = (
        "secrets: {vault: {address: 'http://127.0.0.1:1', token: root-token-1}}\n"
        "backends:\n  a: {command: x, env: {T: 'secretref:vault:x#a'}}\n  b: {command: y}\n"
    )
    loaded = load(text)
    assert list(loaded.config.backends) == ["b"]
    assert "cannot be reached" in loaded.disabled["a"]
    assert "backends.a.env.T" in loaded.disabled["a"]
    assert ("VAULT_TOKEN", "root-token-1") in loaded.secrets


def test_values_from_vault_are_hidden_from_all_that_leaves(vault: VaultDouble, load: Load) -> None:
    vault.put("x", {"a": "value-one"})
    loaded = load(
        "backends: {a: {command: x, env: {T: 'secretref:vault:x#a'}}}",
        {"VAULT_ADDR": vault.address, "VAULT_TOKEN": "root-token-1"},
    )
    assert loaded.config.backends["a"].env["T"] == "value-one"
    hidden = Redactor(loaded.secrets).redact("value-one and root-token-1")
    assert hidden == "«secret vault:x#a» and «secret VAULT_TOKEN»"
