"""`register_manual` and `deregister_manual`: backends that come and go while the gateway runs.

What registration may start is policy (`registration` in the config); a configured backend is never
touched from here. Above: tools.py. Below: config/schema.py, backends/manager.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

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
    _dynamic: set[str] = field(default_factory=set)
    _pending: set[str] = field(default_factory=set)

    async def register(self, arguments: Any) -> Json:
        """`{"backend","tools":N,"names":[…]}`; nothing stays registered when it fails."""
        asked, _ = read_arguments(REGISTER_MANUAL, arguments)
        config = dynamic_backend(asked["manual_call_template"])
        self._check_policy(config)
        name = config.name
        if name not in self._dynamic and name in self.backends.names():
            raise RegistrationRefused(
                f"{name!r} is a configured backend and cannot be replaced from here",
                hint=f"choose another name, or change it in {self.config_source}",
            )
        if name in self._pending:
            raise RegistrationRefused(
                f"{name!r} is being registered right now", hint="wait for that call's answer"
            )
        others = (self._dynamic | self._pending) - {name}
        if len(others) >= self.limit:
            raise RegistrationRefused(
                f"{len(others)} dynamic backends are live, the limit (max_dynamic_backends) is {self.limit}",
                hint=f"deregister_manual one of: {', '.join(sorted(others))}",
            )
        self._pending.add(name)
        try:
            if name in self._dynamic:
                await self.backends.remove(name)
                self._dynamic.discard(name)
            tools = await self.backends.add_and_wait(config, dynamic=True)
        finally:
            self._pending.discard(name)
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
        if name not in self._dynamic:
            if name in self.backends.names():
                raise RegistrationRefused(
                    f"{name!r} is a configured backend: only dynamic backends are removed here",
                    hint=f"remove it from {self.config_source}",
                )
            live = ", ".join(sorted(self._dynamic)) or "none"
            raise BackendNotFound(f"there is no dynamic backend {name!r}", hint=f"dynamic backends: {live}")
        self._dynamic.discard(name)
        return {"backend": name, "removed": await self.backends.remove(name)}

    def _check_policy(self, config: BackendConfig) -> None:
        if config.url is not None:
            self._check_target(config.url)
            return
        kind = "cli" if config.transport == "cli-adapter" else "stdio"
        action = self.policy.cli if kind == "cli" else self.policy.stdio
        if action != "allow":
            why = "asking a person is not built yet, so it is refused" if action == "ask" else "it is denied"
            raise RegistrationRefused(
                f"registering {kind} backends starts a program on this machine; registration.{kind} is "
                f"`{action}` ({why})",
                hint=f"the owner of this gateway can set `registration.{kind}: allow` in {self.config_source}",
            )
        allowed = self.policy.allow_commands
        if allowed and config.command not in allowed:
            raise RegistrationRefused(
                f"the command {config.command!r} is not among registration.allow_commands: {', '.join(allowed)}"
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
