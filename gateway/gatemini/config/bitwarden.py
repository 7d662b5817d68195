"""Bitwarden Secrets Manager: asked over its HTTP API, decrypted here, without a program of Bitwarden's.

A machine account's access token is `0.CLIENT_ID.CLIENT_SECRET:SEED`. The first parts log in (OAuth client credentials);
from the seed comes the key of the answer, in which lies the key of the organization; with that one all names and values
are encrypted (AES-256-CBC, then HMAC-SHA256). The scheme is that of Bitwarden's SDK (github.com/bitwarden/sdk-sm), whose
licence does not allow to pass programs on that hold it; a test lets the SDK and this file read the same server.
Above: secrets. Below: bounded.py, providers, cryptography (optional extra).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson

from gatemini.config.bounded import Server
from gatemini.config.providers import secret_text
from gatemini.config.schema import BwsConfig
from gatemini.config.unavailable import SecretUnavailable

IDENTITY_URL, API_URL = "https://identity.bitwarden.com", "https://api.bitwarden.com"
SEED_BYTES, KEY_BYTES, IV_BYTES, MAC_BYTES = 16, 64, 16, 32
DERIVATION, PURPOSE = b"bitwarden-accesstoken", b"sm-access-token"
"""Bitwarden's labels: the key of the HMAC over the seed, and the `info` of the HKDF after it."""
ENCRYPTED = "2"
"""The one form of encrypted text in use: `2.IV|TEXT|MAC`, each in base64."""
EARLY_SECONDS = 60.0
"""A login is renewed this long before it ends, or after half its time."""
MOST_ALIKE = 20
"""Secrets with the same key that are looked at for the one of a project."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_ORGANIZATION = re.compile(r"[0-9A-Za-z-]{1,64}\Z")
_NEW_TOKEN = "Make a new access token for the machine account and set BWS_ACCESS_TOKEN"  # noqa: S105 - no token

Decrypt = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class _Login:
    headers: Mapping[str, str]
    organization: str
    decrypt: Decrypt
    until: float
    lists: dict[str, Any] = field(default_factory=dict)
    """What was listed with it: for twenty secrets one list is enough."""


@dataclass(slots=True)
class Bitwarden:
    """`ID`, `KEY` or `PROJECT/KEY` of Bitwarden Secrets Manager; logs in once for all of them."""

    settings: BwsConfig
    environ: Mapping[str, str]
    _login: _Login | None = None

    def read(self, path: str) -> str:
        """The value. Blocks; raises SecretUnavailable."""
        project, _, key = path.strip("/").rpartition("/")
        if _UUID.match(key):
            return self._value(self._get(f"secrets/{key}", f"secret {key}"), key)
        found = self._of_project(self._with_key(key), project) if project else self._with_key(key)
        if len(found) != 1:
            how_many = f"{len(found)} secrets" if found else "no secret"
            raise SecretUnavailable(
                f"Bitwarden has {how_many} with the key {path} that this machine account may read",
                "Write PROJECT/KEY, or the secret's id",
            )
        return self._value(self._get(f"secrets/{found[0]}", f"secret {path}"), key)

    def _with_key(self, key: str) -> list[str]:
        """The ids of the secrets with this key."""
        login = self._logged_in()
        return [ident for ident, name in self._names(login, "secrets", "secrets", "key") if name == key]

    def _of_project(self, idents: list[str], project: str) -> list[str]:
        """Those of them that stand in the project, which is named by its name or id."""
        login = self._logged_in()
        if not _UUID.match(project):
            named = [i for i, name in self._names(login, "projects", "data", "name") if name == project]
            if len(named) != 1:
                raise SecretUnavailable(
                    f"Bitwarden has {len(named) or 'no'} projects with the name {project} that this machine account may read",
                    "Name the project by its id, or let the machine account read it",
                )
            project = named[0]
        details = [self._get(f"secrets/{ident}", "secret") for ident in idents[:MOST_ALIKE]]
        return [
            ident
            for ident, secret in zip(idents, details, strict=False)
            if any(row["id"].lower() == project.lower() for row in _rows(secret, "projects"))
        ]

    def _names(self, login: _Login, what: str, under: str, key: str) -> list[tuple[str, str]]:
        """The id and the name of all secrets or projects; those that cannot be read are none that was meant."""
        if what not in login.lists:
            listed = self._get(f"organizations/{login.organization}/{what}", f"list of {what}")
            names: list[tuple[str, str]] = []
            for row in _rows(listed, under):
                with suppress(SecretUnavailable):
                    names.append((row["id"], login.decrypt(row.get(key))))
            login.lists[what] = names
        found: list[tuple[str, str]] = login.lists[what]
        return found

    def _value(self, secret: Any, key: str) -> str:
        value = self._logged_in().decrypt(secret.get("value") if isinstance(secret, dict) else None)
        return secret_text(value.encode(), f"the secret {key}")

    def _get(self, path: str, what: str) -> Any:
        """One answer of the API, logged in. Raises SecretUnavailable with the reason."""
        login, (_, api) = self._logged_in(), self._addresses()
        server, url = self._server(), httpx2.URL(f"{api}/{path}")
        status, body = server.ask("GET", url, login.headers)
        if status == 404:
            raise SecretUnavailable(
                f"Bitwarden has no {what}, or does not let this machine account read it",
                "Give the machine account access to the secret or its project",
            )
        if status != 200:
            if status in (401, 403):
                self._login = None
            raise SecretUnavailable(
                f"{server.at(url)} answered with HTTP {status} to the {what}", _reason(status)
            )
        return server.json(body)

    def _logged_in(self) -> _Login:
        if self._login is None or time.monotonic() > self._login.until:
            self._login = self._log_in()
        return self._login

    def _log_in(self) -> _Login:
        ident, secret, key = _token(self.settings.access_token or self.environ.get("BWS_ACCESS_TOKEN", ""))
        server, (identity, _) = self._server(), self._addresses()
        url = httpx2.URL(f"{identity}/connect/token")
        form = {
            "grant_type": "client_credentials",
            "scope": "api.secrets",
            "client_id": ident,
            "client_secret": secret,
        }
        status, body = server.ask("POST", url, {"Accept": "application/json"}, form)
        if status in (400, 401):
            raise SecretUnavailable(
                f"{server.at(url)} does not know this access token: it was revoked, has expired, or is of another server",
                f"{_NEW_TOKEN}; a server of your own is secrets.bws.server_url",
            )
        if status != 200:
            raise SecretUnavailable(
                f"{server.at(url)} answered with HTTP {status} to the login", _reason(status)
            )
        told = server.json(body)
        bearer, payload = (
            (told.get("access_token"), told.get("encrypted_payload"))
            if isinstance(told, dict)
            else (None, None)
        )
        organization = _organization(bearer)
        if organization is None:
            raise SecretUnavailable("Bitwarden's answer to the login is not one", "Is this Bitwarden?")
        lasts = told.get("expires_in")
        seconds = lasts if isinstance(lasts, int | float) and lasts > 0 else 2 * EARLY_SECONDS
        until = time.monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)
        headers = {"Authorization": f"Bearer {bearer}", "Accept": "application/json"}
        return _Login(headers, organization, _decrypter(_organization_key(_decrypter(key)(payload))), until)

    def _server(self) -> Server:
        check = "Check secrets.bws.server_url and the network"
        return Server("Bitwarden", self.settings.timeout, "secrets.bws.timeout", check)

    def _addresses(self) -> tuple[str, str]:
        """Where to log in, and where to ask."""
        own = (self.settings.server_url or "").rstrip("/")
        if not own:
            return IDENTITY_URL, API_URL
        try:
            url = httpx2.URL(own)
        except httpx2.InvalidURL:
            url = httpx2.URL("")
        near = url.scheme == "http" and url.host in ("localhost", "127.0.0.1", "::1")
        if not url.host or not (url.scheme == "https" or near):
            raise SecretUnavailable(
                "secrets.bws.server_url is no https:// address", "https://vault.bitwarden.eu"
            )
        return f"{own}/identity", f"{own}/api"


def _reason(status: int) -> str:
    if status == 429:
        return "It was asked too often: wait a minute, then change the configuration or restart"
    return "Try again later" if status >= 500 else "Is secrets.bws.server_url the address of Bitwarden?"


def _token(text: str) -> tuple[str, str, bytes]:
    """Client id, client secret and the key of the login's answer."""
    if not text:
        raise SecretUnavailable(
            "the access token of Bitwarden is not set", "Set BWS_ACCESS_TOKEN or secrets.bws.access_token"
        )
    start, _, seed = text.strip().partition(":")
    parts = start.split(".")
    try:
        raw = base64.b64decode(seed, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(parts) != 3 or parts[0] != "0" or not all(parts) or len(raw) != SEED_BYTES:
        raise SecretUnavailable(
            "the access token of Bitwarden is not whole: it has the form 0.ID.SECRET:KEY", _NEW_TOKEN
        )
    _, hashes, _, hkdf = _cryptography()
    start_key = hmac.new(DERIVATION, raw, hashlib.sha256).digest()
    return parts[1], parts[2], hkdf(hashes.SHA256(), KEY_BYTES, PURPOSE).derive(start_key)


def _organization(bearer: Any) -> str | None:
    """Whose secrets these are: it stands in the middle of the bearer token, a JWT."""
    try:
        middle = bearer.split(".")[1]
        claims = orjson.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        found = claims["organization"]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, str) and _ORGANIZATION.match(found) and bearer.isascii() else None


def _organization_key(payload: str) -> bytes:
    try:
        key = base64.b64decode(orjson.loads(payload)["encryptionKey"], validate=True)
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SecretUnavailable("Bitwarden gave no key this gateway can use", _NEW_TOKEN)
    return key


def _rows(answer: Any, key: str) -> list[dict[str, Any]]:
    """What a list of the API holds; rows without an id are none."""
    rows = answer.get(key) if isinstance(answer, dict) else None
    return (
        [row for row in rows if isinstance(row, dict) and _UUID.match(str(row.get("id")))]
        if isinstance(rows, list)
        else []
    )


def _decrypter(key: bytes) -> Decrypt:
    """Reads encrypted texts made with `key`: 32 bytes for AES, 32 for the HMAC."""
    ciphers, _, padding, _ = _cryptography()

    def decrypt(text: Any) -> str:
        kind, _, rest = text.partition(".") if isinstance(text, str) else ("", "", "")
        if kind != ENCRYPTED:
            raise SecretUnavailable(
                f"Bitwarden gave a text in a form this gateway does not know (type {kind[:8] or 'none'})"
            )
        try:
            iv, cipher_text, mac = (base64.b64decode(part, validate=True) for part in rest.split("|"))
            sealed = hmac.compare_digest(hmac.new(key[32:], iv + cipher_text, hashlib.sha256).digest(), mac)
            if not sealed or len(iv) != IV_BYTES:
                raise ValueError
            reader = ciphers.Cipher(ciphers.algorithms.AES(key[:32]), ciphers.modes.CBC(iv)).decryptor()
            unpadder = padding.PKCS7(128).unpadder()
            plain = unpadder.update(reader.update(cipher_text) + reader.finalize()) + unpadder.finalize()
            return str(plain.decode())
        except ValueError:
            raise SecretUnavailable(
                "what Bitwarden gave cannot be decrypted with the key of this access token", _NEW_TOKEN
            ) from None

    return decrypt


def _cryptography() -> tuple[Any, Any, Any, Any]:
    """What is used of the library of the extra `bws`. Raises SecretUnavailable that names the command to install it."""
    try:
        from cryptography.hazmat.primitives import ciphers, hashes, padding  # noqa: PLC0415 - an optional extra
        from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand  # noqa: PLC0415
    except ImportError:
        raise SecretUnavailable(
            "Bitwarden needs the extra bws", "In the checkout of gatemini: pip install '.[bws]'"
        ) from None
    return ciphers, hashes, padding, HKDFExpand
