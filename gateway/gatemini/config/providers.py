"""Secret providers beyond variables and files: allowed commands, the OS keychain, HashiCorp Vault, Bitwarden.

Each answers one path with one value within a bounded time, or raises `SecretUnavailable` with the remedy; none
of its messages holds a value. They block: the configuration is loaded in a worker thread. The Bitwarden SDK's
licence does not allow to pass programs on that hold it, so its command line `bws` is asked instead. Above:
secrets, store. Below: keyring (optional extra), HTTP, child processes.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import orjson

from gatemini.config.commands import Commands
from gatemini.config.schema import BwsConfig, KeyringConfig, VaultConfig
from gatemini.config.unavailable import SecretSilent, SecretUnavailable

if TYPE_CHECKING:
    from types import ModuleType

MAX_SECRET_BYTES = 1 << 20
KEYRING_SECONDS = 20.0
"""How long the keychain may take: it may be asking its owner to unlock it."""
MAX_REPLY_BYTES = 4 << 20
"""What Vault or `bws` may say; a list of all secrets is larger than one of them."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_VAULT_REASONS = {
    400: "the request was not understood: is the mount a KV version 2 engine?",
    403: "permission denied: the token is not valid or its policy does not allow this path",
    503: "it is sealed or in maintenance",
}


def secret_text(data: bytes, source: str) -> str:
    """The text of a secret; one last newline is not part of it."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable(f"{source} gave bytes that are no UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(data) > MAX_SECRET_BYTES:
        raise SecretUnavailable(f"{source} gave {'nothing' if not text else 'more than 1 MiB'}")
    return text


# -- the OS keychain -----------------------------------------------------------------------------------


def keyring_module() -> ModuleType:
    """The library of the extra `keyring`. Raises `SecretUnavailable` that names the command to install it."""
    try:
        import keyring  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise SecretUnavailable(
            "the keychain needs the extra keyring", "In the checkout of gatemini: pip install '.[keyring]'"
        ) from None
    return keyring


def keychain_place(settings: KeyringConfig, path: str) -> tuple[str, str]:
    """`NAME` → (the configured service, NAME); `SERVICE/NAME` → both as written."""
    service, slash, name = path.rpartition("/")
    return (service, name) if slash else (settings.service, path)


def read_keychain(settings: KeyringConfig, path: str) -> str:
    service, name = keychain_place(settings, path)
    value = in_keychain(lambda library: library.get_password(service, name))
    if not value:
        remedy = f"gatemini secret set --keyring {path}"
        raise SecretUnavailable(f"the keychain holds no {name} of the service {service}", remedy)
    return str(value)


def in_keychain(ask: Callable[[Any], Any]) -> Any:
    """One question to the keychain, within `KEYRING_SECONDS`, all of its errors turned into ours."""
    library = keyring_module()
    answers: list[Any] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask(library))
        except Exception as error:  # noqa: BLE001 - backends of the library raise what they like
            faults.append(error)

    thread = threading.Thread(target=work, name="gatemini-keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_SECONDS)
    if thread.is_alive():
        raise SecretSilent(
            f"the keychain gave no answer within {KEYRING_SECONDS:g} s", "Unlock it, then try again"
        )
    if faults:
        kind = type(faults[0]).__name__
        what = "there is no keychain here" if kind == "NoKeyringError" else f"the keychain failed ({kind})"
        raise SecretUnavailable(what, "`python -m keyring diagnose` shows which one is used")
    return answers[0]


# -- HashiCorp Vault, KV version 2 ---------------------------------------------------------------------


@dataclass(slots=True)
class Vault:
    """`path/to/secret#field` over Vault's HTTP API (GET /v1/MOUNT/data/PATH)."""

    settings: VaultConfig
    environ: Mapping[str, str]

    def read(self, path: str) -> str:
        place, mark, field = path.partition("#")
        place = place.strip("/")
        if not place or (mark and not field):
            raise SecretUnavailable("a vault path is PATH or PATH#FIELD", "secretref:vault:team/github#token")
        return self._field(place, field, self._ask(place))

    def _ask(self, place: str) -> bytes:
        url, headers = self._request(place)
        shown = f"Vault at {url.scheme}://{url.netloc.decode()}"  # without a user and password
        try:
            status, body = self._get(url, headers)
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            late = isinstance(error, TimeoutError | httpx2.TimeoutException)
            said = f"gave no answer within {self.settings.timeout:g} s" if late else "cannot be reached"
            remedy = "Check VAULT_ADDR, and that it is running"
            raise SecretSilent(
                f"{shown} {said} ({type(error).__name__})",
                f"{remedy}; or raise secrets.vault.timeout" if late else remedy,
            ) from None
        if status == 404:
            raise SecretUnavailable(
                f"Vault has no secret {place} in {self.settings.mount}",
                f"`vault kv list {self.settings.mount}` shows the names",
            )
        if status != 200:
            reason = _VAULT_REASONS.get(status, f"it answered with HTTP {status}")
            raise SecretUnavailable(f"{shown}: {reason}", f"vault kv get {self.settings.mount}/{place}")
        return body

    def _request(self, place: str) -> tuple[httpx2.URL, dict[str, str]]:
        """Where to ask for a secret, and as whom."""
        address = (self.settings.address or self.environ.get("VAULT_ADDR", "")).rstrip("/")
        token = self.settings.token or self.environ.get("VAULT_TOKEN", "")
        if not address:
            raise SecretUnavailable(
                "the address of Vault is not set", "Set VAULT_ADDR or secrets.vault.address"
            )
        if not address.startswith(("http://", "https://")):
            raise SecretUnavailable(
                "the address of Vault does not begin with http:// or https://", "https://host:8200"
            )
        if not token:
            raise SecretUnavailable("the token of Vault is not set", "Set VAULT_TOKEN or secrets.vault.token")
        headers = {"X-Vault-Token": token, "X-Vault-Request": "true"}
        namespace = self.settings.namespace or self.environ.get("VAULT_NAMESPACE")
        if namespace:
            headers["X-Vault-Namespace"] = namespace
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise SecretUnavailable(
                "the token or the namespace of Vault holds a character that a header cannot carry",
                "Set it again; a newline may have come along",
            )
        try:
            base = httpx2.URL(address)
            path = f"{base.path.rstrip('/')}/v1/{self.settings.mount.strip('/')}/data/{place}"
            return base.copy_with(path=path), headers
        except httpx2.InvalidURL:
            raise SecretUnavailable(
                "the address of Vault and the path of the secret make no URL", "https://host:8200"
            ) from None

    def _trusted(self) -> ssl.SSLContext | bool:
        authority = self.settings.ca_file or self.environ.get("VAULT_CACERT")
        if not authority:
            return True
        try:
            return ssl.create_default_context(cafile=authority)
        except (OSError, ValueError):  # ssl's own errors are OSErrors
            raise SecretUnavailable(
                f"{authority} cannot be read as certificates", "Correct VAULT_CACERT or secrets.vault.ca_file"
            ) from None

    def _get(self, url: httpx2.URL, headers: dict[str, str]) -> tuple[int, bytes]:
        """One request, bounded as a whole: a server that drips ends like one that is silent."""
        seconds = self.settings.timeout
        deadline = time.monotonic() + seconds
        body = b""
        with (
            httpx2.Client(verify=self._trusted(), timeout=seconds, follow_redirects=False) as client,
            client.stream("GET", url, headers=headers) as reply,
        ):
            for piece in reply.iter_bytes():
                body += piece
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(body) > MAX_REPLY_BYTES:
                    raise SecretUnavailable(
                        f"Vault said more than {MAX_REPLY_BYTES >> 20} MiB", "Is this Vault?"
                    )
        return reply.status_code, body

    def _field(self, place: str, field: str, body: bytes) -> str:
        value = _json(body, "Vault")
        for key in ("data", "data"):
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not value:
            raise SecretUnavailable(
                f"Vault has no current version of {place}: it was deleted, or the engine is not KV version 2",
                f"vault kv get {self.settings.mount}/{place}",
            )
        if not field:
            field = "value" if "value" in value or len(value) > 1 else next(iter(value))
        found = value.get(field)
        if found is None:
            fields = ", ".join(sorted(map(str, value)))
            raise SecretUnavailable(f"{place} has no field {field}", f"It has: {fields}. Write {place}#FIELD")
        text = found if isinstance(found, str) else orjson.dumps(found).decode()
        return secret_text(text.encode(), f"{place}#{field}")


# -- Bitwarden Secrets Manager -------------------------------------------------------------------------


@dataclass(slots=True)
class Bitwarden:
    """`ID`, `KEY` or `PROJECT/KEY`, asked of the program `bws` (which decrypts on this machine)."""

    settings: BwsConfig
    environ: Mapping[str, str]
    commands: Commands

    def read(self, path: str) -> str:
        project, _, key = path.strip("/").rpartition("/")
        if _UUID.match(key):
            return _bitwarden_value(self._ask("secret", "get", key), key)
        where = [self._project(project)] if project else []
        listed = self._ask("secret", "list", *where)
        hits = (
            [s for s in listed if isinstance(s, dict) and s.get("key") == key]
            if isinstance(listed, list)
            else []
        )
        if len(hits) != 1:
            found = "no secret" if not hits else f"{len(hits)} secrets"
            raise SecretUnavailable(
                f"Bitwarden has {found} with the key {path}", "Write PROJECT/KEY, or the secret's id"
            )
        return _bitwarden_value(hits[0], key)

    def _project(self, name: str) -> str:
        if _UUID.match(name):
            return name
        listed = self._ask("project", "list")
        hits = (
            [p for p in listed if isinstance(p, dict) and p.get("name") == name]
            if isinstance(listed, list)
            else []
        )
        if len(hits) != 1 or not isinstance(hits[0].get("id"), str):
            raise SecretUnavailable(
                f"Bitwarden has {len(hits) or 'no'} projects with the name {name}",
                "`bws project list` shows them",
            )
        return str(hits[0]["id"])

    def _ask(self, *words: str) -> Any:
        token = self.settings.access_token or self.environ.get("BWS_ACCESS_TOKEN", "")
        if not token:
            raise SecretUnavailable(
                "the access token of Bitwarden is not set", "Set BWS_ACCESS_TOKEN or secrets.bws.access_token"
            )
        environ = {**self.environ, "BWS_ACCESS_TOKEN": token}
        if self.settings.server_url:
            environ["BWS_SERVER_URL"] = self.settings.server_url
        line = [self.settings.command, *words, "--output", "json", "--color", "no"]
        said = self.commands.run(line, environ, self.settings.timeout, "secrets.bws.timeout")
        return _json(said, self.settings.command)


def _bitwarden_value(secret: Any, key: str) -> str:
    value = secret.get("value") if isinstance(secret, dict) else None
    if not isinstance(value, str):
        raise SecretUnavailable(f"bws gave no value for {key}", "Run `bws secret list` by hand to see why")
    return secret_text(value.encode(), key)


def _json(data: bytes, source: str) -> Any:
    if len(data) > MAX_REPLY_BYTES:
        raise SecretUnavailable(f"{source} said more than {MAX_REPLY_BYTES >> 20} MiB")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise SecretUnavailable(
            f"{source} gave something that is no JSON", "Run it by hand to see why"
        ) from None
