"""Decide whether a backend may be registered, by the `registration` policy and, for `ask`, by the user's consent.

Under `ask` a person decides, about the text of `question.py`. Under `allow` only listed hosts and commands are taken.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import anyio
import httpx2

from gatemini.backends.calls.callers import Caller, RpcError
from gatemini.config.model.command_template import TemplateError, words_of
from gatemini.config.model.schema import BackendConfig, RegistrationConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.errors import BackendUnreachable, RegistrationRefused
from gatemini.protocol.registration.question import masked_words, question
from gatemini.text.escape import visible

LOOKUP_SECONDS = 5.0
"""Bounds the lookup of a host's addresses. A host without an address fails later, when it is connected to."""

MOST_SHOWN = 6000
"""Longest question shown to the user, in characters. A longer one is refused: its end would not be read."""

METADATA_HOSTS = ("metadata.google.internal", "metadata", "instance-data")
METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:42::42",
            "fd00:c1::a9fe:a9fe",
            "fd00:ec2::254",
            "fd20:ce::254",
        ),
    )
)
"""Besides the link-local range (RFC 3927, RFC 4291): where Alibaba, Azure, Oracle, Scaleway, AWS and Google Cloud serve
credentials."""

_WRAPPING_NETWORKS = tuple(map(ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
"""IPv6 whose last 32 bits are an IPv4 address: compatible (RFC 4291), translated (RFC 2765), NAT64 (RFC 6052, 8215)."""

_STEERS = re.compile(
    r"PATH|LD_.*|DYLD_.*|BASH_ENV|ENV|SHELLOPTS|IFS|PYTHON.*|NODE_.*|NPM_.*|PERL5.*|RUBY.*|JAVA_TOOL_OPTIONS|GIT_.*",
    re.IGNORECASE,
)
"""Variables from which loaders and interpreters take code, or where a program is looked for."""

_QUESTION = {"type": "object", "properties": {}}

Address = IPv4Address | IPv6Address


@dataclass(slots=True)
class Admission:
    """The registration policy of one gateway."""

    policy: RegistrationConfig
    config_source: str
    redactor: Redactor = field(default_factory=Redactor)
    """Knows the secrets of the configuration, which are masked in the question."""

    async def may_read(self, path: Any, caller: Caller, read: Sequence[str] = ()) -> None:
        """Raise RegistrationRefused unless an adapter file may be read: even its error messages reveal its contents."""
        if self._mode("cli") == "ask" or read:
            path = visible(str(path))
            await self._ask(
                "cli", f"An agent wants to read the file {path}, to register command lines from it.", caller
            )

    async def admit(self, config: BackendConfig, caller: Caller, read: Sequence[str] = ()) -> None:
        """Raise RegistrationRefused unless the policy allows the backend and the user agrees, for `ask` and after `read`."""
        kind = "http" if config.url is not None else "cli" if config.transport == "cli-adapter" else "stdio"
        if await self._permitted_mode(config, kind) == "ask" or read:
            if masked := masked_words(config, self.redactor):
                raise RegistrationRefused(
                    f"{', '.join(masked)}: holds a value of a configured secret, which the question to a person "
                    "would not show",
                    hint="leave the value out, or add the backend to the configuration",
                )
            await self._ask(kind, question(config, read), caller)
            await self._permitted_mode(config, kind)  # the policy may have changed meanwhile

    async def _permitted_mode(self, config: BackendConfig, kind: str) -> str:
        """Return `allow` or `ask`; raise RegistrationRefused for a backend that the policy allows to nobody."""
        mode = self._mode(kind)
        if config.url is not None:
            await self._checked(httpx2.URL(config.url).host.lower())
        else:
            self._check_commands(config, mode)
        return mode

    def _mode(self, kind: str) -> str:
        """Return `allow` or `ask`; raise RegistrationRefused for `deny`."""
        mode: str = getattr(self.policy, kind)
        if mode == "deny":
            raise RegistrationRefused(f"registering {kind} backends is denied here", hint=self._remedy(kind))
        return mode

    def _asked_by(self, kind: str) -> str:
        """Return what wants a person's consent."""
        if self._mode(kind) == "ask":
            return f"registration.{kind} is `ask`"
        return "policy.flow is `ask`, and the session has read something with a label"

    def _remedy(self, kind: str) -> str:
        if getattr(self.policy, kind) == "allow":
            return f"register before such a read, or the owner of this gateway adds the backend to {self.config_source}"
        lists = "allow_hosts" if kind == "http" else "allow_commands"
        return (
            f"the owner of this gateway can set `registration.{kind}: allow`, and `registration.{lists}`, in "
            f"{self.config_source}"
        )

    async def _ask(self, kind: str, message: str, caller: Caller) -> None:
        if caller.ask is None or "elicitation" not in caller.can:
            raise RegistrationRefused(
                f"registering {kind} backends needs a person's consent ({self._asked_by(kind)}), and this "
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

    def _check_commands(self, config: BackendConfig, mode: str) -> None:
        allowed = self.policy.allow_commands
        commands = list(_commands(config))
        if "*" in allowed or (not allowed and mode != "allow"):
            return
        if steering := sorted({name for name in _variables(config) if _STEERS.fullmatch(name)}):
            raise RegistrationRefused(
                f"{', '.join(steering)}: may make an allowed command run another program's code",
                hint="leave it out, or add the backend to the configuration",
            )
        for command in commands:
            if command not in allowed:
                raise RegistrationRefused(
                    f"the command {command!r} is not among registration.allow_commands: "
                    f"{', '.join(allowed) or 'it lists none'}",
                    hint=self._list_it("allow_commands", "command"),
                )

    def _list_it(self, key: str, what: str) -> str:
        return f"the owner of this gateway can list the {what} under `registration.{key}` in {self.config_source}"

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
        listed = any(fnmatchcase(host, pattern.lower()) for pattern in allowed)
        found = await _addresses(host)
        addresses = list(map(_unwrapped, found))
        if host.rstrip(".") in METADATA_HOSTS or any(map(_is_never_a_backend, addresses)):
            raise RegistrationRefused(
                f"{host!r} is a link-local or metadata address: no backend is registered there"
            )
        if not listed and (allowed or self.policy.http == "allow"):
            raise RegistrationRefused(
                f"the host {host!r} is not among registration.allow_hosts: {', '.join(allowed) or 'it lists none'}",
                hint=self._list_it("allow_hosts", "host"),
            )
        if not listed and any(map(_is_private, addresses)):
            raise RegistrationRefused(
                f"{host!r} is on this machine or in a private network, which only the owner of this gateway opens "
                "to agents",
                hint=self._list_it("allow_hosts", "host"),
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
    return address.is_link_local or address.is_multicast or address in METADATA_ADDRESSES


def _is_private(address: Address) -> bool:
    """Return whether an address is in no public network: private, loopback, shared, benchmarking, reserved."""
    return not address.is_global or (isinstance(address, IPv6Address) and address.is_site_local)


def _variables(config: BackendConfig) -> list[str]:
    """The variables that a template sets, or has the gateway pass on from its own environment."""
    before = config.prerequisite.env if config.prerequisite is not None else {}
    return [*config.env, *config.inherit_env, *before]


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
