"""`register_manual` and `deregister_manual`: backends that come and go while the gateway runs.

What registration may start is policy (`registration` in the config); a configured backend is never
touched from here. Above: tools.py. Below: config/schema.py, backends/manager.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio.to_thread

from gatemini.backends.cli_template import TemplateError, words_of
from gatemini.config.load import dynamic_backend
from gatemini.config.schema import BackendConfig, RegistrationConfig
from gatemini.errors import BackendNotFound, RegistrationRefused
from gatemini.model import Json, Tool
from gatemini.server.arguments import read_arguments
from gatemini.server.definitions import DEREGISTER_MANUAL, REGISTER_MANUAL
from gatemini.types.identifiers import short_name

NAMES_SHOWN = 20


METADATA_HOSTS = ("metadata.google.internal", "metadata", "instance-data")
METADATA_ADDRESSES = frozenset(map(ip_address, ("100.100.100.200", "fd00:ec2::254")))
"""Beside the link-local range (RFC 3927, RFC 4291): where Alibaba and AWS (IPv6) serve credentials."""


def _is_never_a_backend(host: str) -> bool:
    if host in METADATA_HOSTS:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return address.is_link_local or address in METADATA_ADDRESSES


class Registrar(Protocol):
    """What registration asks of `backends/manager.py`."""

    def names(self) -> list[str]: ...

    async def add_and_wait(self, config: BackendConfig, *, dynamic: bool = True) -> Sequence[Tool]: ...

    async def remove(self, name: str) -> int: ...


@dataclass(slots=True)
class Registration:
    """The dynamic backends of one gateway."""

    backends: Registrar
    policy: RegistrationConfig
    limit: int
    config_source: str
    configured: frozenset[str] = frozenset()
    """Names that the configuration holds, disabled backends included."""
    _dynamic: set[str] = field(default_factory=set)
    _changing: dict[str, str] = field(default_factory=dict)
    """Names that a call is registering or deregistering right now, and which of the two."""

    def set_configured(self, names: Iterable[str]) -> None:
        """The configuration has changed: what it names is no longer dynamic."""
        self.configured = frozenset(names)
        self._dynamic -= self.configured

    async def register(self, arguments: Any) -> Json:
        """`{"backend","tools":N,"names":[…]}`; nothing stays registered when it fails."""
        asked, _ = read_arguments(REGISTER_MANUAL, arguments)
        template = asked["manual_call_template"]
        if "adapter_file" in template:
            self._check_may_start("cli")  # first: reading the file would tell what is in it
        config = await anyio.to_thread.run_sync(dynamic_backend, template)
        self._check_policy(config)
        name = config.name
        self._check_free(name)
        if self._is_configured(name):
            raise RegistrationRefused(
                f"{name!r} is a configured backend and cannot be replaced from here",
                hint=f"choose another name, or change it in {self.config_source}",
            )
        coming = {other for other, what in self._changing.items() if what == "registered"}
        others = (self._dynamic | coming) - {name}
        if len(others) >= self.limit:
            raise RegistrationRefused(
                f"{len(others)} dynamic backends are live, the limit (max_dynamic_backends) is {self.limit}",
                hint=f"deregister_manual one of: {', '.join(sorted(others))}",
            )
        self._changing[name] = "registered"
        try:
            if name in self._dynamic:
                self._dynamic.discard(name)
                await self.backends.remove(name)
            tools = await self.backends.add_and_wait(config, dynamic=True)
        finally:
            del self._changing[name]
        self._dynamic.add(name)
        return {
            "backend": name,
            "tools": len(tools),
            "names": [short_name(t.name) for t in tools[:NAMES_SHOWN]],
        }

    async def deregister(self, arguments: Any) -> Json:
        """`{"backend","removed":N}`, for dynamic backends only."""
        asked, _ = read_arguments(DEREGISTER_MANUAL, arguments)
        name: str = asked["manual_name"]
        self._check_free(name)
        if name not in self._dynamic:
            if self._is_configured(name):
                raise RegistrationRefused(
                    f"{name!r} is a configured backend: only dynamic backends are removed here",
                    hint=f"remove it from {self.config_source}",
                )
            live = ", ".join(sorted(self._dynamic)) or "none"
            raise BackendNotFound(f"there is no dynamic backend {name!r}", hint=f"dynamic backends: {live}")
        self._changing[name] = "deregistered"
        self._dynamic.discard(name)
        try:
            return {"backend": name, "removed": await self.backends.remove(name)}
        finally:
            del self._changing[name]

    def _is_configured(self, name: str) -> bool:
        return name in self.configured or (name not in self._dynamic and name in self.backends.names())

    def _check_free(self, name: str) -> None:
        if name in self._changing:
            raise RegistrationRefused(
                f"{name!r} is being {self._changing[name]} right now by another call",
                hint="wait for that call's answer",
            )

    def _check_policy(self, config: BackendConfig) -> None:
        if config.url is not None:
            self._check_target(config.url)
            return
        self._check_may_start("cli" if config.transport == "cli-adapter" else "stdio")
        allowed = self.policy.allow_commands
        for command in _commands(config) if allowed else ():
            if command not in allowed:
                raise RegistrationRefused(
                    f"the command {command!r} is not among registration.allow_commands: {', '.join(allowed)}"
                )

    def _check_may_start(self, kind: str) -> None:
        action = self.policy.cli if kind == "cli" else self.policy.stdio
        if action != "allow":
            why = "asking a person is not built yet, so it is refused" if action == "ask" else "it is denied"
            raise RegistrationRefused(
                f"registering {kind} backends starts a program on this machine; registration.{kind} is "
                f"`{action}` ({why})",
                hint=f"the owner of this gateway can set `registration.{kind}: allow` in {self.config_source}",
            )

    def _check_target(self, url: str) -> None:
        """HTTP targets: the policy, the listed hosts, and never the address ranges of a cloud's metadata."""
        if self.policy.http != "allow":
            raise RegistrationRefused(
                "registering HTTP backends is not allowed here",
                hint=f"the owner of this gateway can set `registration.http: allow` in {self.config_source}",
            )
        host = (urlsplit(url).hostname or "").lower()
        allowed = self.policy.allow_hosts
        if allowed and not any(fnmatchcase(host, pattern.lower()) for pattern in allowed):
            raise RegistrationRefused(
                f"the host {host!r} is not among registration.allow_hosts: {', '.join(allowed)}"
            )
        if _is_never_a_backend(host):
            raise RegistrationRefused(
                f"{host!r} is a link-local or metadata address: no backend is registered there"
            )


def _commands(config: BackendConfig) -> Iterator[str]:
    """Every program that this backend may start: its own, those of CLI tools, checks and prerequisites."""
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
