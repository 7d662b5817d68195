"""Decide whether a backend may be registered, by the `registration` policy and, for `ask`, by the user's consent.

The user is shown every key of the template, with secrets masked, since any key may decide what is started.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import unquote_plus, urlsplit, urlunsplit

import anyio

from gatemini.backends.callers import Caller, RpcError
from gatemini.config.model.cli_template import TemplateError, words_of
from gatemini.config.model.schema import BackendConfig, RegistrationConfig
from gatemini.config.variables.redaction import looks_secret
from gatemini.errors import BackendUnreachable, RegistrationRefused
from gatemini.model import Json
from gatemini.text.escape import visible

LOOKUP_SECONDS = 5.0
"""Bounds the lookup of a host's addresses. A host without an address fails later, when it is connected to."""

MOST_SHOWN = 6000
"""Longest question shown to the user, in characters. A longer one is refused: its end would not be read."""

METADATA_HOSTS = ("metadata.google.internal", "metadata", "instance-data")
METADATA_ADDRESSES = frozenset(map(ip_address, ("100.100.100.200", "fd00:ec2::254")))
"""Besides the link-local range (RFC 3927, RFC 4291): where Alibaba and AWS (IPv6) serve credentials."""

PRIVATE_NETWORKS = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)
"""RFC 1918, RFC 6598, RFC 4193. Loopback is not included: servers under development run there."""

_WRAPPING_NETWORKS = tuple(map(ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
"""IPv6 whose last 32 bits are an IPv4 address: compatible (RFC 4291), translated (RFC 2765), NAT64 (RFC 6052, 8215)."""

MASK = "«secret»"
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.+))?\Z", re.DOTALL)
_QUESTION = {"type": "object", "properties": {}}

Address = IPv4Address | IPv6Address


@dataclass(slots=True)
class Admission:
    """The registration policy of one gateway."""

    policy: RegistrationConfig
    config_source: str

    async def may_read(self, path: Any, caller: Caller) -> None:
        """Raise RegistrationRefused unless an adapter file may be read: even its error messages reveal its contents."""
        if self._mode("cli") == "ask":
            path = visible(str(path))
            await self._ask(
                "cli", f"An agent wants to read the file {path}, to register command lines from it.", caller
            )

    async def admit(self, config: BackendConfig, caller: Caller) -> None:
        """Raise RegistrationRefused unless the policy allows the backend and, for `ask`, the user agrees."""
        kind = "http" if config.url is not None else "cli" if config.transport == "cli-adapter" else "stdio"
        mode = self._mode(kind)
        if config.url is not None:
            await self._checked((urlsplit(config.url).hostname or "").lower())
        else:
            self._check_commands(config)
        if mode == "ask":
            await self._ask(kind, _question(config), caller)

    def _mode(self, kind: str) -> str:
        """Return `allow` or `ask`; raise RegistrationRefused for `deny`."""
        mode: str = getattr(self.policy, kind)
        if mode == "deny":
            raise RegistrationRefused(f"registering {kind} backends is denied here", hint=self._remedy(kind))
        return mode

    def _remedy(self, kind: str) -> str:
        return f"the owner of this gateway can set `registration.{kind}: allow` in {self.config_source}"

    async def _ask(self, kind: str, message: str, caller: Caller) -> None:
        if caller.ask is None or "elicitation" not in caller.can:
            raise RegistrationRefused(
                f"registering {kind} backends needs a person's consent (registration.{kind} is `ask`), and this "
                "client cannot ask one: it announced no elicitation",
                hint=self._remedy(kind),
            )
        if len(message) > MOST_SHOWN:
            raise RegistrationRefused(
                f"registering {kind} backends needs a person's consent, and this template is too long to be read "
                f"by one ({len(message):,} characters, at most {MOST_SHOWN:,})",
                hint="write a shorter template, or add the backend to the configuration",
            )
        try:
            answer = await caller.ask(
                "elicitation/create", {"message": message, "requestedSchema": _QUESTION}
            )
        except RpcError as error:
            raise RegistrationRefused(
                f"registering {kind} backends needs a person's consent, and asking failed: {error.message}",
                hint=self._remedy(kind),
            ) from error
        action = answer.get("action")
        if action != "accept":
            did = "declined" if action == "decline" else "closed the question without an answer"
            raise RegistrationRefused(
                f"the user {did}: nothing was registered",
                hint="continue without it; do not send it again unless the user says so",
            )

    def _check_commands(self, config: BackendConfig) -> None:
        allowed = self.policy.allow_commands
        for command in _commands(config) if allowed else ():
            if command not in allowed:
                raise RegistrationRefused(
                    f"the command {command!r} is not among registration.allow_commands: {', '.join(allowed)}"
                )

    async def permitted(self, host: str) -> list[str]:
        """Return the addresses, checked just now, at which a registered backend may be reached.

        Raises BackendUnreachable where the host name now resolves to a forbidden address (DNS rebinding).
        """
        try:
            return await self._checked(host.lower())
        except RegistrationRefused as refused:
            raise BackendUnreachable(
                f"registered backends may not connect there: {refused.message}", hint=refused.hint
            ) from refused

    async def _checked(self, host: str) -> list[str]:
        """Return the addresses of an allowed host; refuse metadata addresses always, private ones unless listed."""
        allowed = self.policy.allow_hosts
        if allowed and not any(fnmatchcase(host, pattern.lower()) for pattern in allowed):
            raise RegistrationRefused(
                f"the host {host!r} is not among registration.allow_hosts: {', '.join(allowed)}"
            )
        found = await _addresses(host)
        addresses = list(map(_unwrapped, found))
        if host.rstrip(".") in METADATA_HOSTS or any(map(_is_never_a_backend, addresses)):
            raise RegistrationRefused(
                f"{host!r} is a link-local or metadata address: no backend is registered there"
            )
        if not allowed and any(map(_is_private, addresses)):
            raise RegistrationRefused(
                f"{host!r} is in a private network, which only the owner of this gateway opens to agents",
                hint=f"the owner can list it under `registration.allow_hosts` in {self.config_source}",
            )
        return list(dict.fromkeys(map(str, found)))


async def _addresses(host: str) -> list[Address]:
    """Resolve a host as the system does, whatever notation its address has; empty if it is unknown.

    Raises RegistrationRefused when the lookup times out: an unchecked address cannot be let through.
    """
    with anyio.move_on_after(LOOKUP_SECONDS):
        try:
            found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return []
        return [ip_address(str(at[4][0]).partition("%")[0]) for at in found]
    raise RegistrationRefused(f"the address of {host!r} was not found within {LOOKUP_SECONDS:g} s: try again")


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 one (mapped, 6to4, NAT64 and others)."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _WRAPPING_NETWORKS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_never_a_backend(address: Address) -> bool:
    return address.is_link_local or address in METADATA_ADDRESSES


def _is_private(address: Address) -> bool:
    return any(address in network for network in PRIVATE_NETWORKS)


def _commands(config: BackendConfig) -> Iterator[str]:
    """Yield every program that this backend may start: its own, those of CLI tools, checks and prerequisites."""
    if config.command is not None:
        yield config.command
    for name, tool in config.cli_tools.items():
        try:
            yield words_of(tool)[0]
        except TemplateError as error:
            raise RegistrationRefused(f"{name}: {error}") from error
    check = config.health_check
    if check:
        try:
            words = shlex.split(check) if isinstance(check, str) else list(check)
        except ValueError as error:
            raise RegistrationRefused(f"health_check cannot be split into words: {error}") from error
        yield from words[:1]
    if config.prerequisite is not None:
        yield config.prerequisite.command


# -- what the person reads -------------------------------------------------------------------------------


def _question(config: BackendConfig) -> str:
    does = "connects to another server" if config.url is not None else "starts programs on this machine"
    plain = config.model_dump(
        mode="json",
        exclude_unset=True,
        exclude={"name": True, "transport": True, "cli_tools": {"__all__": {"input_schema"}}},
    )
    if "cli_tools" in plain:
        plain["tools"] = {
            **plain.get("tools", {}),
            **plain.pop("cli_tools"),
        }  # under the key that the template has
    lines = [f"  {path}: {visible(value)}" for path, value in _set_keys(_without_secrets(plain))]
    return "\n".join(
        [f"An agent wants to register the backend {config.name}, which {does}:", *lines, "Do you agree?"]
    )


def _set_keys(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key that is set, as `a.b`, with its value; a command line is one value."""
    if isinstance(value, Mapping):
        value = dict(value)
        if isinstance(value.get("command"), str) and isinstance(value.get("args"), list):
            value["command"] = shlex.join([value["command"], *map(str, value.pop("args"))])
        for key, inner in value.items():
            yield from _set_keys(inner, f"{path}.{visible(str(key))}" if path else visible(str(key)))
    elif isinstance(value, list) and path.rpartition(".")[2] in ("command", "health_check"):
        yield path, shlex.join(map(str, value))
    else:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without_secrets(plain: Json) -> Json:
    """Return the template with a mask for each value whose key names a secret."""
    shown: Json = {}
    for key, value in plain.items():
        if key in ("env", "headers") and isinstance(value, dict):
            shown[key] = {k: MASK if looks_secret(k) else v for k, v in value.items()}
        elif key in ("args", "command", "health_check") and isinstance(value, list):
            shown[key] = _masked_words(value)
        elif key == "url" and isinstance(value, str):
            shown[key] = _masked_url(value)
        elif isinstance(value, Mapping):
            shown[key] = _without_secrets(dict(value))
        else:
            shown[key] = value
    return shown


def _masked_words(words: list[str]) -> list[str]:
    """Mask the value in `--token=x` and `--token x`."""
    masked: list[str] = []
    follows = False
    for word in words:
        option = _OPTION.match(word)
        secret = option is not None and looks_secret(option[1])
        if option is not None and secret and option[2] is not None:
            masked.append(word[: option.start(2)] + MASK)
        else:
            masked.append(MASK if follows and option is None else word)
        follows = option is not None and secret and option[2] is None
    return masked


def _masked_url(url: str) -> str:
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    query = "&".join(
        f"{name}={MASK}" if equals and looks_secret(unquote_plus(name)) else name + equals + value
        for name, equals, value in (pair.partition("=") for pair in parts.query.split("&"))
    )
    return urlunsplit(
        (parts.scheme, f"{MASK}@{place}" if at and user else place, parts.path, query, parts.fragment)
    )
