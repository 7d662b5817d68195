"""The pins of one gateway: what each backend was when it was approved, what it is now, and what follows.

Under `enforce` a tool that is not as it was approved is withheld: no list, search or type has it, and a call by its name
is refused with what changed. Under `warn` it stays, and the change is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from msgspec.structs import replace

from gatemini.config.model.policy import PinsMode
from gatemini.config.model.schema import BackendConfig
from gatemini.discovery.types.identifiers import short_name
from gatemini.errors import ConfigError, PolicyDenied
from gatemini.model import GET_PROMPT, Json, Offer, Tool
from gatemini.policy.pins.compare import Comparison, Verdict, compare
from gatemini.policy.pins.definitions import definitions_file, keep, read_definitions, write_definitions
from gatemini.policy.pins.executables import Executables
from gatemini.policy.pins.lock_file import BackendPin, Lock, ToolPin, read_lock, write_lock
from gatemini.policy.pins.observed import Said, digest, pin_of, pins_of, prompts_of, server_of, source_of
from gatemini.text.escape import visible

RULE = "its pin"
"""The rule that refusals name."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Observed:
    """One backend as it is now. `registered`: by an agent, so that the pin lives as long as the registration."""

    config: BackendConfig
    registered: bool
    said: Said | None = None
    """None while its tools come from the cache."""
    pin: BackendPin = field(default_factory=BackendPin)
    baseline: BackendPin | None = None
    """What a registered backend was when it was registered; a configured one has the lock file."""
    is_new: bool = False
    """Whether this process wrote its baseline, and so may complete it with prompts, which are listed later."""
    tools: dict[str, Tool] = field(default_factory=dict)
    """By name."""
    offers: list[Offer] | None = None
    """Its resources and prompts; None until they are listed, which may be never."""
    comparison: Comparison = field(default_factory=Comparison)


class Pins:
    """Pins of all backends of a gateway; `path` is the lock file. Nothing is read before `read`."""

    def __init__(
        self,
        mode: PinsMode,
        path: Path,
        *,
        redact: Callable[[str], str],
        record: Callable[..., None] | None = None,
        trusts_first_use: bool = True,
    ) -> None:
        self.mode = mode
        self.path = path
        self.trusts_first_use = trusts_first_use
        """Whether under `warn` the first listing of a server without a pin becomes its pin."""
        self.backends: dict[str, Observed] = {}
        self.problem: str | None = None
        """Why the lock file cannot be used: then nothing is approved."""
        self.executables = Executables()
        self.changed: Callable[[], None] = lambda: None
        """Called when what is approved may be something else."""
        self._redact = redact
        self._record = record
        self._lock = Lock()
        self._changed: set[str] = set()
        """Backends whose pins are not in the file yet."""
        self.unsaved = anyio.Event()
        """Set while there are such backends."""
        self.news = anyio.Event()
        """Set, and replaced, when a backend has listed something."""

    def read(self, programs: Iterable[BackendConfig]) -> None:
        """Read the lock file, unless pins are off, and hash the programs of these backends; blocks."""
        if self.mode == "off":
            return
        self.executables.read(programs)
        try:
            self._lock, self.problem = read_lock(self.path) or Lock(), None
        except ConfigError as error:
            self._lock, self.problem = Lock(), error.message
            logger.error("pins: %s", error.message)

    # -- what backends say ---------------------------------------------------------------------------

    def listed(
        self, config: BackendConfig, said: Said | None, tools: Sequence[Tool], *, registered: bool
    ) -> None:
        """Take a new listing. Without `said` it comes from the cache."""
        known = self.backends.setdefault(config.name, Observed(config, registered))
        known.config, known.registered = config, registered
        known.said, known.tools = said, {tool.name: tool for tool in tools}
        self._observe(config.name, known)

    def _observe(self, backend: str, known: Observed) -> None:
        if self.mode == "off":
            return
        news, self.news = self.news, anyio.Event()
        news.set()
        said = known.said
        known.pin = BackendPin(
            source=source_of(known.config, self._redact),
            server=server_of(said.server_info) or "unnamed" if said is not None else "",
            instructions=digest(said.instructions) if said is not None else "",
            executable=self.executables.of(backend),
            tools=pins_of(known.tools.values()),
            prompts=None if known.offers is None else pins_of(prompts_of(known.offers)),
        )
        if said is not None:
            self._begin(backend, known)
        self._judge(backend, known)

    def offered(self, backend: str, offers: Sequence[Offer]) -> list[Offer]:
        """Take the resources and prompts that a backend lists; return those that may be shown."""
        known = self.backends.get(backend)
        if known is None:
            return list(offers)
        known.offers = list(offers)
        self._observe(backend, known)
        return self.shown_offers(backend, offers)

    def removed(self, backend: str) -> None:
        """Forget a backend that was removed."""
        self.backends.pop(backend, None)

    def _begin(self, backend: str, known: Observed) -> None:
        """Make what a backend is now its baseline, where it has none and may have one."""
        if known.registered:
            base = known.baseline
            if base is None:
                known.baseline = known.pin
            elif base.prompts is None:
                known.baseline = replace(base, prompts=known.pin.prompts)
            return
        if self.mode != "warn" or not self.trusts_first_use or self.problem is not None:
            return
        pinned = self._lock.backends.get(backend)
        if pinned is None:
            known.is_new = True
            self._set(backend, known.pin)
        elif known.is_new and pinned.prompts is None and known.pin.prompts is not None:
            self._set(backend, replace(pinned, prompts=known.pin.prompts))

    def _set(self, backend: str, pin: BackendPin) -> None:
        self._lock = Lock(backends={**self._lock.backends, backend: pin})
        self._changed.add(backend)
        self.unsaved.set()

    def _judge(self, backend: str, known: Observed) -> None:
        pinned = known.baseline if known.registered else self._lock.backends.get(backend)
        before = known.comparison
        is_first = pinned is None and self.mode == "warn" and self.trusts_first_use  # pinned once it runs
        known.comparison = Comparison() if is_first else compare(pinned, known.pin)
        if known.comparison == before:
            return
        self.changed()
        if known.comparison.same:
            return
        for line in self.reasons(backend):
            logger.warning("pins: %s", line)
        if self._record is not None:
            self._record("pin", backend=backend, mode=self.mode, changes=self.reasons(backend))

    def judge_all(self) -> None:
        """Compare all backends with the lock file as it is now."""
        for name, known in self.backends.items():
            self._observe(name, known)

    # -- what follows --------------------------------------------------------------------------------

    def shown_offers(self, backend: str, offers: Iterable[Offer]) -> list[Offer]:
        """Return the resources and prompts that may be shown."""
        known = self.backends.get(backend)
        if known is None or self.mode != "enforce":
            return list(offers)
        if known.comparison.backend:
            return []
        prompts = known.comparison.prompts
        return [o for o in offers if o.kind != "prompt" or _is_approved(prompts.get(o.name))]

    def is_withheld(self, backend: str) -> bool:
        """Whether the server itself is not the one that was approved: then its instructions are withheld too."""
        known = self.backends.get(backend)
        return known is not None and self.mode == "enforce" and bool(known.comparison.backend)

    def check(self, backend: str, tool: Tool | None) -> None:
        """Raise PolicyDenied at the last moment for a tool of the connected server that is not as it was approved.

        The call was admitted by the listing of that time: since then the server may have been started or started again,
        and an instance of a dedicated backend has a listing of its own.
        """
        known = self.backends.get(backend)
        if known is None or self.mode != "enforce":
            return
        if tool is None:
            raise PolicyDenied.by(short_name(backend), RULE, "its server does not list this tool any more")
        reason = self.refusal(backend, tool.name, {})
        pinned = (known.pin.tools or {}).get(tool.name)
        if reason is None and known.tools.get(tool.name) is not tool and pinned != pin_of(tool):
            reason = "this instance of its server lists it differently"
        if reason is not None:
            raise PolicyDenied.by(short_name(tool.qualified), RULE, reason)

    def refusal(self, backend: str, tool: str, arguments: Json) -> str | None:
        """Return why a call may not leave and what a person does about it; None where its pin allows it."""
        known = self.backends.get(backend)
        if known is None or self.mode != "enforce":
            return None
        if known.comparison.backend:
            return f"{visible(backend)}: {_all(known.comparison.backend)}; {review(backend, None)}"
        verdict = known.comparison.tools.get(tool)
        if verdict is None and tool == GET_PROMPT:
            verdict = known.comparison.prompts.get(
                str(arguments.get("name")), Verdict("new", "it is not pinned")
            )
        if verdict is None or verdict.state == "approved":
            return None
        return f"{verdict.words}; {review(backend, tool)}"

    def reasons(self, backend: str) -> list[str]:
        """Return what is not as it was approved, one sentence each."""
        comparison = self.backends[backend].comparison
        shown = visible(backend)
        if comparison.backend:
            return [f"{shown}: {_all(comparison.backend)}"]
        named = [(f"{shown}.{short_name(name)}", verdict) for name, verdict in comparison.tools.items()]
        named += [
            (f"prompt {short_name(name)} of {shown}", verdict) for name, verdict in comparison.prompts.items()
        ]
        return [f"{name}: {verdict.words}" for name, verdict in named if verdict.state != "approved"]

    def problems(self) -> list[str]:
        """Return what a person has to look at, one sentence each."""
        found = [self.problem] if self.problem is not None else []
        for backend in sorted(self.backends):
            reasons = self.reasons(backend)
            if reasons:
                more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
                effect = (
                    "it is withheld"
                    if self.mode == "enforce"
                    else "it is shown all the same (policy.pins: warn)"
                )
                found.append(
                    f"not as it was approved: {reasons[0]}{more}; {effect}; review with `gatemini pin diff {visible(backend)}`"
                )
        return found

    # -- the file --------------------------------------------------------------------------------------

    @property
    def lock(self) -> Lock:
        """The lock in force."""
        return self._lock

    def save(self) -> None:
        """Write new pins into the file, beside what other gateways wrote there meanwhile; blocks. Raises OSError."""
        mine, self._changed, self.unsaved = self._changed, set(), anyio.Event()
        if not mine:
            return
        try:
            there = (read_lock(self.path) or Lock()).backends
            ours = {name: self._lock.backends[name] for name in mine}
            write_lock(self.path, Lock(backends={**there, **ours}))
        except (OSError, ConfigError):
            self._changed |= mine
            raise
        place = definitions_file(self.path)
        definitions = read_definitions(place)
        for name in mine & self.backends.keys():
            known = self.backends[name]
            keep(definitions, name, ours[name], known.tools.values(), prompts_of(known.offers or ()))
        write_definitions(place, definitions)

    def approve(self, backend: str, name: str | None = None) -> None:
        """Approve a backend as it is now, or one of its tools or prompts; `save` writes it."""
        now = self.backends[backend].pin
        if name is None:
            self._set(backend, now)
            return
        pinned = self._lock.backends.get(backend) or replace(now, tools={}, prompts={})
        tools, prompts = _taken(pinned.tools, now.tools, name), _taken(pinned.prompts, now.prompts, name)
        self._set(backend, replace(pinned, tools=tools, prompts=prompts))


def review(backend: str, tool: str | None) -> str:
    """Return what a person does about a withheld tool."""
    name = visible(backend)
    one = f"{name}.{visible(tool)}" if tool else name
    return f"a person reviews this with `gatemini pin diff {name}` and approves it with `gatemini pin approve {one}`"


def _is_approved(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.state == "approved"


def _all(changes: Sequence[str]) -> str:
    return "; ".join(visible(change) for change in changes)


def _taken(
    pinned: Mapping[str, ToolPin] | None, now: Mapping[str, ToolPin] | None, name: str
) -> dict[str, ToolPin] | None:
    """The pins with this one as it is now, or without it if it is gone."""
    kept = {key: value for key, value in (pinned or {}).items() if key != name}
    if now is not None and name in now:
        kept[name] = now[name]
    return kept if pinned is not None or kept else None
