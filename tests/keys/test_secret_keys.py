"""Keys of `secrets`: each changes what a backend of the running gateway is given, or that it is hidden."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from fixtures.backend_bench import ODD
from fixtures.bitwarden_server import Account
from fixtures.bitwarden_server import serving as bitwarden
from fixtures.config_keys import with_key
from fixtures.direct import write_config
from fixtures.running import answer
from gatemini.app import App
from gatemini.errors import ConfigError

pytestmark = [pytest.mark.anyio, pytest.mark.long]


def asking(secret: str) -> dict[str, Any]:
    """A configuration whose backend is given this secret, and tells its length when asked."""
    args = ["-I", "-S", str(ODD)]
    backend = {"command": sys.executable, "args": args, "env": {"GIVEN": secret}}
    return {"backends": {"demo": backend}}


async def given(folder: Path, config: dict[str, Any], environ: dict[str, str] | None = None) -> str:
    """What the backend got, its letters apart so that nothing is hidden; or why it was not started."""
    path = write_config(folder, **config)
    async with App.open(path, environ=environ or {}) as app:
        assert await app.settled(60)
        if "demo" in app.loaded.disabled:
            return "\n".join(map(str, app.loaded.problems))
        text, _, _ = await answer(app, "return [...(await demo.env({})).GIVEN].join(' ');")
    return text.replace(" ", "")


@pytest.mark.proves("secrets.redact")
async def test_which_variables_are_hidden(tmp_path: Path) -> None:
    args = ["-I", "-S", str(ODD), "{}", "${SHOWN_VALUE}"]
    base = {"backends": {"demo": {"command": sys.executable, "args": args}}}
    for hidden in ([], ["SHOWN_VALUE"]):
        path = write_config(tmp_path, **with_key(base, "secrets.redact", hidden))
        async with App.open(path, environ={"SHOWN_VALUE": "in-the-open-1"}) as app:
            text, _, _ = await answer(app, "return 'in-the-' + 'open-1';")
        assert ("in-the-open-1" in text) is (not hidden)


@pytest.mark.proves("secrets.strict")
async def test_whether_an_unresolved_secret_stops_the_start(tmp_path: Path) -> None:
    base = asking("${NOT_SET_ANYWHERE}")
    assert "NOT_SET_ANYWHERE" in await given(tmp_path, base)
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        await given(tmp_path, with_key(base, "secrets.strict", True))


@pytest.mark.proves("secrets.exec_allow", "secrets.exec_timeout")
async def test_which_commands_tell_secrets_and_how_long_they_may_take(tmp_path: Path) -> None:
    slow = f"{sys.executable} -c \"import time; time.sleep(0.5); print('told-by-it')\""
    base = asking(f"secretref:exec:{slow}")
    assert "secrets.exec_allow" in await given(tmp_path, base)
    base = with_key(base, "secrets.exec_allow", [sys.executable])
    assert await given(tmp_path, base) == "told-by-it"
    assert "secrets.exec_timeout" in await given(tmp_path, with_key(base, "secrets.exec_timeout", "50ms"))


class _OneService(KeyringBackend):
    """The library's own interface, over a dictionary."""

    priority = 1  # type: ignore[assignment]
    kept = {("gatemini", "key"): "of-gatemini", ("other", "key"): "of-another"}  # noqa: RUF012 - never changed

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.mark.proves("secrets.keyring.service")
async def test_under_which_service_the_keychain_is_asked(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(_OneService())
    try:
        base = asking("secretref:keyring:key")
        assert await given(tmp_path, base) == "of-gatemini"
        assert await given(tmp_path, with_key(base, "secrets.keyring.service", "other")) == "of-another"
    finally:
        keyring.set_keyring(before)


@contextmanager
def vault() -> Iterator[tuple[str, list[str]]]:
    """A server that answers as Vault does: its address, and what it was asked (path, token, namespace)."""
    asked: list[str] = []
    enough = Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/v1/late/"):
                enough.wait(0.5)
            sent = self.headers
            asked.append(f"{self.path} {sent.get('X-Vault-Token')} {sent.get('X-Vault-Namespace')}")
            body = json.dumps({"data": {"data": {"password": "from-the-vault"}, "metadata": {}}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        enough.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.proves(
    "secrets.vault.address",
    "secrets.vault.token",
    "secrets.vault.namespace",
    "secrets.vault.mount",
    "secrets.vault.ca_file",
    "secrets.vault.timeout",
)
async def test_which_vault_is_asked_and_how(tmp_path: Path) -> None:
    base = asking("secretref:vault:db#password")
    assert "VAULT_ADDR" in await given(tmp_path, base)
    with vault() as (address, asked):
        base = with_key(base, "secrets.vault.address", address)
        assert "VAULT_TOKEN" in await given(tmp_path, base)
        base = with_key(base, "secrets.vault.token", "token-1")
        assert await given(tmp_path, base) == "from-the-vault"
        assert asked.pop() == "/v1/secret/data/db token-1 None"
        await given(tmp_path, with_key(base, "secrets.vault.namespace", "team"))
        assert asked.pop() == "/v1/secret/data/db token-1 team"
        await given(tmp_path, with_key(base, "secrets.vault.mount", "kv"))
        assert asked.pop() == "/v1/kv/data/db token-1 None"
        certificates = with_key(base, "secrets.vault.ca_file", "/no/such/file.pem")
        assert "/no/such/file.pem" in await given(tmp_path, certificates)
        late = with_key(base, "secrets.vault.mount", "late")
        assert await given(tmp_path, late) == "from-the-vault"
        told = await given(tmp_path, with_key(late, "secrets.vault.timeout", "50ms"))
        assert "secretref:vault:db" in told
        assert "secrets.vault.timeout" in told


@pytest.mark.proves(
    "secrets.bws.enabled",
    "secrets.bws.access_token",
    "secrets.bws.server_url",
    "secrets.bws.timeout",
)
async def test_how_bitwarden_is_asked(tmp_path: Path) -> None:
    account = Account([("ops", "GH", "from-bitwarden")])
    with bitwarden(account) as port, socket.create_server(("127.0.0.1", 0)) as silent:
        base = asking("secretref:bws:ops/GH")
        assert await given(tmp_path, base, {"GH": "from-a-variable"}) == "from-a-variable"
        base = with_key(base, "secrets.bws.enabled", True)
        assert "access token of Bitwarden is not set" in await given(tmp_path, base)
        base = with_key(base, "secrets.bws.access_token", account.token)
        there = with_key(base, "secrets.bws.server_url", f"http://127.0.0.1:{port}")
        assert await given(tmp_path, there) == "from-bitwarden"
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        late = with_key(base, "secrets.bws.server_url", address)
        told = await given(tmp_path, with_key(late, "secrets.bws.timeout", "50ms"))
        assert "within 0.05 s" in told
        assert "secrets.bws.timeout" in told
