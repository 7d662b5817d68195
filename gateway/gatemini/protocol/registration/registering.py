"""`register_manual` and `deregister_manual`: backends that are added and removed while the gateway runs.

`admission.py` decides what registration may start. Configured backends are never changed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from gatemini.backends.calls.callers import NOBODY, Caller
from gatemini.backends.manager import Manager
from gatemini.config.registered_backend import dynamic_backend
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND, RESERVED, backend_identifier, short_name
from gatemini.errors import BackendError, BackendNotFound, RegistrationRefused
from gatemini.model import Json
from gatemini.policy import principal
from gatemini.policy.client_grant import may_reach
from gatemini.policy.principal import Behalf, Principal
from gatemini.protocol.definitions import DEREGISTER_MANUAL, REGISTER_MANUAL
from gatemini.protocol.registration.admission import Admission
from gatemini.protocol.tool_arguments import read_arguments

NAMES_SHOWN = 20


@dataclass(slots=True)
class Registration:
    """The dynamic backends of one gateway."""

    backends: Manager
    admission: Admission
    limit: int
    configured: frozenset[str] = frozenset()
    """Names in the configuration, disabled backends included."""
    spaces: frozenset[str] = frozenset()
    """Namespaces and aliases in the configuration, those of disabled backends included."""
    _changing: dict[str, str] = field(default_factory=dict)
    """Names that a call is registering or deregistering now, and which of the two."""

    def set_configured(self, names: Iterable[str], spaces: Iterable[str]) -> None:
        """Set the names of a changed configuration: its backends are no longer dynamic."""
        self.configured, self.spaces = frozenset(names), frozenset(spaces)

    async def register(
        self,
        arguments: Any,
        caller: Caller = NOBODY,
        behalf: Behalf | None = None,
        read: Sequence[str] = (),
    ) -> Json:
        """Return `{"backend","tools":N,"names":[…]}`; on failure what was registered before stays, and nothing else.

        `caller` may be sent a request. Only the session of `behalf` finds what is registered, which ends with it. `read`:
        what the session has read, in sentences, where a person has to agree because of it.
        """
        given, _ = read_arguments(REGISTER_MANUAL, arguments)
        template = given["manual_call_template"]
        if "adapter_file" in template:
            await self.admission.may_read(template["adapter_file"], caller, read)
        config = await anyio.to_thread.run_sync(dynamic_backend, template)
        name = config.name
        if config.disabled:
            raise RegistrationRefused(
                f"{name!r} has disabled: true", hint="leave it out: what is registered runs"
            )
        behalf = behalf or Behalf(principal.NOBODY)
        who = behalf.who
        self._check_owner(name, who)
        self._check_room(name, config.namespace, who)
        await self.admission.admit(config, caller, read)
        who = behalf.who  # the user may have taken minutes to consent
        self._check_owner(name, who)
        self._check_room(name, config.namespace, who)
        self._changing[name] = "registered"
        try:
            tools = await self.backends.add_and_wait(config, who.session)
        except BackendError as error:
            if name in self.backends.registered(who.session):
                error.hint = f"{error.hint}; the backend that was registered as {name} before runs on"
            raise
        finally:
            del self._changing[name]
        return {
            "backend": name,
            "tools": len(tools),
            "names": [short_name(t.name) for t in tools[:NAMES_SHOWN]],
        }

    async def deregister(self, arguments: Any, who: Principal = principal.NOBODY) -> Json:
        """Return `{"backend","removed":N}`, for what the session of `who` has registered only."""
        given, _ = read_arguments(DEREGISTER_MANUAL, arguments)
        name: str = given["manual_name"]
        self._check_free(name)
        own = self.backends.registered(who.session)
        if name not in own:
            if self._is_configured(name):
                raise RegistrationRefused(
                    f"{name!r} is a configured backend: only dynamic backends are removed here",
                    hint=f"remove it from {self.admission.config_source}",
                )
            live = ", ".join(own) or "none"
            raise BackendNotFound(f"there is no dynamic backend {name!r}", hint=f"dynamic backends: {live}")
        self._changing[name] = "deregistered"
        try:
            return {"backend": name, "removed": await self.backends.remove(name)}
        finally:
            del self._changing[name]

    def _check_owner(self, name: str, who: Principal) -> None:
        """Raise RegistrationRefused for a name of another session, and for one that the client's grant leaves out."""
        if self.backends.is_taken(name, who.session):
            raise RegistrationRefused(
                f"{name!r} is a name that cannot be used now", hint="choose another name"
            )
        if not may_reach(who.grant, name):
            raise RegistrationRefused(f"the client's grant has no backend {name!r}")

    def _check_room(self, name: str, namespace: str | None, who: Principal) -> None:
        """Raise RegistrationRefused unless a backend of that name and namespace can be added now."""
        self._check_free(name)
        if self._is_configured(name):
            raise RegistrationRefused(
                f"{name!r} is a configured backend and cannot be replaced from here",
                hint=f"choose another name, or change it in {self.admission.config_source}",
            )
        for word in filter(None, (name, namespace)):
            self._check_spelling(word)
        others = [other for other in self.backends.registered(who.session) if other != name]
        if len(others) >= self.limit:
            raise RegistrationRefused(
                f"{len(others)} dynamic backends are live, the limit (max_dynamic_backends) is {self.limit}",
                hint=f"deregister_manual one of: {', '.join(others)}",
            )

    def _check_spelling(self, word: str) -> None:
        """Raise RegistrationRefused for a name that code would take for something configured or of the sandbox.

        A configured backend that is down has no tools, so its calls would reach the registered one.
        """
        hint = "choose another name and namespace"
        spelled = backend_identifier(word)
        if word in RESERVED or spelled in RESERVED or word in ("composite", COMPOSITE_BACKEND):
            raise RegistrationRefused(f"{word!r} is a name of the sandbox or of the language", hint=hint)
        if word.startswith("__"):
            raise RegistrationRefused(f"{word!r} begins with __, which is kept for the sandbox", hint=hint)
        for taken in sorted(self.configured | self.spaces):
            if taken == word or backend_identifier(taken) == spelled:
                raise RegistrationRefused(
                    f"{word!r} is the name, namespace or alias {taken!r} of the configuration, as code writes it",
                    hint=hint,
                )

    def _is_configured(self, name: str) -> bool:
        return name in self.configured or name in self.backends.configured()

    def _check_free(self, name: str) -> None:
        if name in self._changing:
            raise RegistrationRefused(
                f"{name!r} is being {self._changing[name]} right now by another call",
                hint="wait for that call's answer",
            )
