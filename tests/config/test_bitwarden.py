"""Bitwarden Secrets Manager: a double of its servers, read by this gateway and by Bitwarden's own SDK alike."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures import bitwarden_server
from fixtures.bitwarden_server import Account, encrypted, serving
from fixtures.certificates import signed
from gatemini.config.schema import BwsConfig, SecretsConfig
from gatemini.config.secrets import SecretResolver
from gatemini.config.unavailable import SecretSilent, SecretUnavailable

SECRETS = [("web", "GH", "value-one"), ("ops", "GH", "value-two"), ("ops", "NPM", "zwei\nZeilen äöü 🔑\n")]
Ask = Callable[..., SecretResolver]


@pytest.fixture
def account() -> Account:
    return Account(list(SECRETS))


@pytest.fixture
def bitwarden(account: Account, tmp_path: Path) -> Iterator[Ask]:
    with serving(account) as port:

        def ask(**changes: Any) -> SecretResolver:
            there = {"access_token": account.token, "server_url": f"http://127.0.0.1:{port}"}
            settings = SecretsConfig(bws=BwsConfig(enabled=True, **{**there, **changes}))
            return SecretResolver({}, settings, tmp_path, tmp_path)

        yield ask


def test_secrets_are_had_by_id_by_key_and_by_project_with_one_login(bitwarden: Ask, account: Account) -> None:
    secrets = bitwarden()
    assert secrets.resolve(f"secretref:bws:{account.ids[0]}")[0] == "value-one"
    assert secrets.resolve("secretref:bws:ops/GH") == ("value-two", [("bws:ops/GH", "value-two")])
    assert secrets.resolve(f"secretref:bws:{account.projects['web']}/GH")[0] == "value-one"
    assert secrets.resolve("secretref:bws:NPM")[0] == "zwei\nZeilen äöü 🔑"
    assert account.logins == 1


def test_a_login_that_has_ended_is_renewed(
    bitwarden: Ask, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.lasts = 30
    secrets, now = bitwarden(), time.monotonic()
    monkeypatch.setattr("gatemini.config.bitwarden.time.monotonic", lambda: now)
    assert secrets.resolve(f"secretref:bws:{account.ids[0]}")[0] == "value-one"
    assert secrets.resolve(f"secretref:bws:{account.ids[1]}")[0] == "value-two"
    assert account.logins == 1
    now += 16  # half of its time is over
    assert secrets.resolve("secretref:bws:NPM")[0].startswith("zwei")
    assert account.logins == 2


def test_many_secrets_take_one_list(bitwarden: Ask, account: Account) -> None:
    secrets = bitwarden()
    for path in ("ops/GH", "web/GH", "ops/NPM", "NPM"):
        secrets.resolve(f"secretref:bws:{path}")
    lists = [path for path in account.asked if "/organizations/" in path]
    assert len(lists) == len(set(lists)) == 2


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("GH", "2 secrets with the key GH"),
        ("GONE", "no secret with the key GONE"),
        ("nowhere/GH", "no projects with the name nowhere"),
        ("web/NPM", "no secret with the key web/NPM"),
        ("11111111-2222-3333-4444-555555555555", "no secret 1111.*does not let this machine account read it"),
    ],
)
def test_a_path_that_is_not_exactly_one_secret_is_refused(bitwarden: Ask, path: str, says: str) -> None:
    with pytest.raises(SecretUnavailable, match=says):
        bitwarden().resolve(f"secretref:bws:{path}")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"access_token": None}, "access token of Bitwarden is not set"),
        ({"access_token": "0.wrong"}, "is not whole: it has the form 0.ID.SECRET:KEY"),
        ({"access_token": "0.a.b:not base64"}, "is not whole"),
        ({"access_token": f"0.a.b:{'A' * 22}=="}, "does not know this access token"),
        ({"server_url": "http://vault.example"}, "no https:// address"),
        ({"server_url": "vault.bitwarden.eu"}, "no https:// address"),
    ],
)
def test_what_is_wrong_with_token_or_address_is_said(
    bitwarden: Ask, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(SecretUnavailable, match=says) as caught:
        bitwarden(**changes).resolve("secretref:bws:NPM")
    assert caught.value.remedy
    assert not changes.get("access_token") or changes["access_token"] not in caught.value.message


def test_the_key_of_another_token_decrypts_nothing(bitwarden: Ask, account: Account) -> None:
    other = f"{account.token.partition(':')[0]}:{'A' * 22}=="
    with pytest.raises(SecretUnavailable, match="cannot be decrypted with the key of this access token"):
        bitwarden(access_token=other).resolve("secretref:bws:NPM")


LOGIN = "/identity/connect/token"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (429, b"{}", "HTTP 429 to the login"),
        (503, b"<html>", "HTTP 503 to the login"),
        (302, b"", "HTTP 302 to the login"),
        (200, b"<html>", "no JSON"),
        (200, b"[]", "answer to the login is not one"),
        (200, b'{"access_token": "a.b.c", "encrypted_payload": "2.x"}', "answer to the login is not one"),
        (200, b"\xff" * (5 << 20), "more than 4 MiB"),
    ],
)
def test_a_login_that_is_answered_oddly_is_an_error_of_its_own(
    bitwarden: Ask, account: Account, status: int, body: bytes, says: str
) -> None:
    account.replies[LOGIN] = status, body
    with pytest.raises(SecretUnavailable, match=says):
        bitwarden().resolve("secretref:bws:NPM")


def test_odd_rows_are_left_out_and_odd_texts_are_errors(bitwarden: Ask, account: Account) -> None:
    place = f"/api/organizations/{account.organization}/secrets"
    row = {"id": account.ids[2], "key": encrypted(account.key, "NPM")}
    rows = [None, 1, {"id": "../projects"}, {"key": 1}, row]
    account.replies[place] = 200, json.dumps({"secrets": rows}).encode()
    assert bitwarden().resolve("secretref:bws:NPM")[0].startswith("zwei")
    for text, says in (("7.abc", "type 7"), (None, "type none"), ("2.a|b|c", "cannot be decrypted")):
        account.replies[place] = 200, json.dumps({"secrets": [{**row, "key": text}, row]}).encode()
        assert bitwarden().resolve("secretref:bws:NPM")[0].startswith("zwei")
        account.replies[f"/api/secrets/{account.ids[2]}"] = 200, json.dumps({"value": text}).encode()
        with pytest.raises(SecretUnavailable, match=says):
            bitwarden().resolve("secretref:bws:NPM")
        del account.replies[f"/api/secrets/{account.ids[2]}"]
    account.replies[place] = 403, b"{}"
    with pytest.raises(SecretUnavailable, match="HTTP 403 to the list of secrets"):
        bitwarden().resolve("secretref:bws:NPM")


def test_a_server_that_is_not_there_is_waited_for_once(tmp_path: Path, account: Account) -> None:
    gone = BwsConfig(enabled=True, access_token=account.token, server_url="http://127.0.0.1:1")
    secrets = SecretResolver({}, SecretsConfig(bws=gone), tmp_path, tmp_path)
    for path in ("A", "B"):
        with pytest.raises(SecretUnavailable, match="cannot be reached"):
            secrets.resolve(f"secretref:bws:{path}")
    assert isinstance(secrets._silent["bws"], SecretSilent)


def test_without_the_library_the_extra_is_named(bitwarden: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(SecretUnavailable, match="extra bws") as caught:
        bitwarden().resolve("secretref:bws:NPM")
    assert "pip install '.[bws]'" in caught.value.remedy


def test_while_it_is_not_enabled_the_last_part_of_the_path_is_a_variable(tmp_path: Path) -> None:
    secrets = SecretResolver({"GH": "value-one"}, SecretsConfig(), tmp_path, tmp_path)
    assert secrets.resolve("secretref:bws:ops/GH")[0] == "value-one"


# -- the double against Bitwarden's own SDK --------------------------------------------------------------------

SDK = """
import json, sys
from bitwarden_sdk import BitwardenClient, client_settings_from_dict
port, token, organization, ids = json.loads(sys.argv[1])
base = f"https://localhost:{port}"
client = BitwardenClient(client_settings_from_dict({"apiUrl": base + "/api", "identityUrl": base + "/identity"}))
client.auth().login_access_token(token, "")
listed = sorted(secret.key for secret in client.secrets().list(organization).data.data)
values = [client.secrets().get(ident).data.value for ident in ids]
projects = {project.id: project.name for project in client.projects().list(organization).data.data}
of = [projects[client.secrets().get(ident).data.project_id] for ident in ids]
print(json.dumps([[str(x) for x in found] for found in (listed, values, of)]))
"""


@pytest.mark.skipif(
    importlib.util.find_spec("bitwarden_sdk") is None, reason="Bitwarden's SDK has no build for this machine"
)
def test_bitwardens_own_sdk_reads_the_double_as_this_gateway_does(tmp_path: Path) -> None:
    """The double runs in a process of its own: the SDK holds the interpreter while it waits."""
    authority, own = signed(tmp_path)
    line = [sys.executable, bitwarden_server.__file__, str(own)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = server.stdout.readline()
        asked = subprocess.run(
            [sys.executable, "-c", SDK, told],
            env={**os.environ, "SSL_CERT_FILE": str(authority)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert server.stdin is not None
        server.stdin.close()
    assert asked.returncode == 0, asked.stderr
    listed, values, projects = json.loads(asked.stdout)
    assert (listed, values, projects) == (["GH", "NPM"], ["value-one", "value-two äöü"], ["ops", "web"])
