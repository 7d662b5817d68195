"""Secret providers beyond variables and files: the OS keychain and HashiCorp Vault.

Each answers one path with one value within a bounded time, or raises `SecretUnavailable` with the remedy; none
of its messages holds a value. They block: the configuration is loaded in a worker thread. Above: secrets, store.
Below: keyring (optional extra), bounded.py.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import orjson

from gatemini.config.bounded import Server, within
from gatemini.config.schema import KeyringConfig, VaultConfig
from gatemini.config.unavailable import SecretSilent, SecretUnavailable

if TYPE_CHECKING:
    from types import ModuleType

MAX_SECRET_BYTES = 1 << 20
KEYRING_SECONDS = 20.0
"""How long the keychain may take: it may be asking its owner to unlock it."""
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
    try:
        return within(KEYRING_SECONDS, lambda: ask(library), "gatemini-keyring")
    except TimeoutError:
        raise SecretSilent(
            f"the keychain gave no answer within {KEYRING_SECONDS:g} s", "Unlock it, then try again"
        ) from None
    except Exception as error:  # noqa: BLE001 - backends of the library raise what they like
        kind = type(error).__name__
        what = "there is no keychain here" if kind == "NoKeyringError" else f"the keychain failed ({kind})"
        raise SecretUnavailable(what, "`python -m keyring diagnose` shows which one is used") from None


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

    def _ask(self, place: str) -> Any:
        url, headers = self._request(place)
        check = "Check VAULT_ADDR, and that it is running"
        server = Server("Vault", self.settings.timeout, "secrets.vault.timeout", check, self._trusted())
        status, body = server.ask("GET", url, headers)
        if status == 404:
            raise SecretUnavailable(
                f"Vault has no secret {place} in {self.settings.mount}",
                f"`vault kv list {self.settings.mount}` shows the names",
            )
        if status != 200:
            reason = _VAULT_REASONS.get(status, f"it answered with HTTP {status}")
            raise SecretUnavailable(
                f"{server.at(url)}: {reason}", f"vault kv get {self.settings.mount}/{place}"
            )
        return server.json(body)

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

    def _field(self, place: str, field: str, value: Any) -> str:
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
