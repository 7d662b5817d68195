"""What outlives a process: tools per backend, verdicts on eras, usage counts.

One JSON file, private, written as a whole and never trusted when read: whatever is not exactly as written
is set aside as `cache.json.bad` and the gateway starts cold. Above: app (load at start, save when due and at
shutdown). Below: `own_files.py`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatemini.folders import cache_folder
from gatemini.model import Json, Tool
from gatemini.processes.own_files import NotOurs, read_own, replace_own

VERSION = 2
SAVE_EVERY_SECONDS = 5.0
"""At most this often while running; shutdown saves what is left."""
MAX_BYTES = 256 << 20
"""A larger file is not ours."""

logger = logging.getLogger(__name__)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Tool(_Strict):
    """A `Tool`, field by field."""

    name: str
    description: str = ""
    input_schema: Json = Field(default_factory=lambda: {"type": "object"})
    output_schema: Json | None = None
    annotations: Json = Field(default_factory=dict)
    tags: list[str] = Field(default_factory=list)
    namespace: str | None = None
    title: str | None = None
    repairs: list[str] = Field(default_factory=list)


class _Backend(_Strict):
    config: str
    era: str | None = None
    tools: list[_Tool] = Field(default_factory=list)


class _File(_Strict):
    version: int
    backends: dict[str, _Backend] = Field(default_factory=dict)
    usage: dict[str, int] = Field(default_factory=dict)


def default_path() -> Path:
    return cache_folder() / "cache.json"


def config_hash(config: BaseModel | Mapping[str, Any]) -> str:
    """What a backend's tools are keyed by: any change of its configuration makes them stale.

    A hash, so that no secret of the configuration reaches the disk.
    """
    plain = config.model_dump(mode="json") if isinstance(config, BaseModel) else dict(config)
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _as_it_is(value: Any) -> Any:
    return value


class Cache:
    """Holds the file's content; `load` first, then ask and tell, `save` when due."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        redact: Callable[[Any], Any] = _as_it_is,
    ) -> None:
        """`redact` takes secrets out of a JSON value: a backend may repeat its key in what it says of its tools."""
        self.path = path or default_path()
        self._redact = redact
        self.problem: str | None = None
        """Why the last load started cold although there was a file; for its owner (`App.problems`)."""
        self._clock = clock
        self._file = _File(version=VERSION)
        self._lists: dict[str, tuple[str, list[Tool]]] = {}
        """By backend: configuration and tools, as read from the file or told since."""
        self._told: set[str] = set()
        """Backends whose list the file's content does not have yet: it is put in where saving does not delay."""
        self._dirty = False
        self._saved_at: float | None = None

    # ---------------------------------------------------------------------------------------- the file

    def load(self) -> None:
        """Never raises for what the file holds: a bad one is moved to `<name>.bad`, and `problem` says so."""
        self.problem = None
        try:
            data = read_own(self.path, MAX_BYTES)
        except FileNotFoundError:
            return
        except NotOurs as error:
            self._start_cold(str(error), set_aside=True)
            return
        except OSError as error:
            self._start_cold(f"cannot be read: {error.strerror or error}", set_aside=False)
            return
        try:
            found = orjson.loads(data)
            if not isinstance(found, dict) or found.get("version") != VERSION:
                self._start_cold(f"is not of version {VERSION}", set_aside=True)
                return
            self._file = _File.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            self._start_cold(f"holds something else at {where}: {first['msg']}", set_aside=True)
        except (ValueError, RecursionError) as error:
            self._start_cold(f"is damaged: {error}", set_aside=True)

    def _start_cold(self, why: str, *, set_aside: bool) -> None:
        self._file = _File(version=VERSION)
        self._lists.clear()
        self._told.clear()
        aside = self.path.with_name(self.path.name + ".bad")
        self.problem = f"the cache {self.path} {why}"
        if set_aside:
            try:
                os.replace(self.path, aside)
                self.problem += f"; set aside as {aside.name}"
            except OSError as error:
                self.problem += f"; it could not be set aside: {error.strerror or error}"
        self.problem += "; starting without it"

    @property
    def due(self) -> bool:
        """Something changed, and the last save is long enough ago."""
        if not self._dirty:
            return False
        return self._saved_at is None or self._clock() - self._saved_at >= SAVE_EVERY_SECONDS

    def save(self) -> bool:
        """Writes the whole file at once (mode 0600). False, with a warning, where it cannot.

        May run in a thread of its own while the content changes: it writes a copy, and later changes are due again.
        """
        self._saved_at = self._clock()
        self._dirty = False
        content = self._copied()
        try:
            replace_own(self.path, orjson.dumps(content.model_dump()), lasting=True)
        except (OSError, TypeError, ValueError, RecursionError) as error:
            self._dirty = True
            logger.warning("the cache %s could not be written: %s", self.path, error)
            return False
        return True

    def _copied(self) -> _File:
        """The content as it is now: entries are replaced, never changed, so their containers are enough."""
        now = self._file
        backends, lists = now.backends.copy(), self._lists.copy()
        for name in self._told.copy():
            config, tools = lists.get(name, ("", []))
            entry = backends.get(name)
            if entry is not None and entry.config == config:
                backends[name] = _Backend(config=config, era=entry.era, tools=[self._kept(t) for t in tools])
        return _File.model_construct(
            version=now.version,
            backends=backends,
            usage=self._redact(now.usage),
        )

    def _kept(self, tool: Tool) -> _Tool:
        """A tool as the file has it: without secrets, whatever its backend wrote into it."""
        said = self._redact(
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
                "annotations": tool.annotations,
                "tags": list(tool.tags),
                "namespace": tool.namespace,
                "title": tool.title,
                "repairs": list(tool.repairs),
            }
        )
        return _Tool.model_construct(**said)

    # ------------------------------------------------------------------------------------------- content

    def tools(self, backend: str, config: str) -> list[Tool] | None:
        """The tools listed under this very configuration (`config_hash`); None if there are none."""
        entry = self._file.backends.get(backend)
        if entry is None or entry.config != config:
            return None
        known = self._lists.get(backend)
        if known is None or known[0] != config:
            known = self._lists[backend] = (config, [_tool(backend, kept) for kept in entry.tools])
        return known[1].copy()

    def put_tools(self, backend: str, config: str, tools: Iterable[Tool]) -> bool:
        """Keep the tools a backend lists; return whether they differ from those kept."""
        listed = list(tools)
        if self.tools(backend, config) == listed:
            return False
        before = self._file.backends.get(backend)
        if before is None or before.config != config:
            self._file.backends[backend] = _Backend(config=config)
        self._lists[backend] = (config, listed)
        self._told.add(backend)
        self._dirty = True
        return True

    def era(self, backend: str, config: str) -> str | None:
        """Which handshake this backend answered last time under this configuration."""
        entry = self._file.backends.get(backend)
        return entry.era if entry and entry.config == config else None

    def put_era(self, backend: str, config: str, era: str) -> None:
        before = self._file.backends.get(backend)
        tools = before.tools if before and before.config == config else []
        self._put(backend, _Backend(config=config, era=era, tools=tools))

    def _put(self, backend: str, entry: _Backend) -> None:
        if self._file.backends.get(backend) != entry:
            self._file.backends[backend] = entry
            self._dirty = True

    def forget(self, backends: Iterable[str]) -> None:
        """Drops backends that were taken out of the configuration.

        Those it never named stay: gateways with other configurations may share the file.
        """
        for name in backends:
            self._dirty = self._file.backends.pop(name, None) is not None or self._dirty
            self._lists.pop(name, None)
            self._told.discard(name)

    @property
    def usage(self) -> dict[str, int]:
        """Tool → uses, for `Tracker.load_usage`."""
        return dict(self._file.usage)

    def put_usage(self, counts: Mapping[str, int]) -> None:
        """Replaces the counts (`Tracker.dump_usage` includes what was loaded)."""
        if self._file.usage != counts:
            self._file.usage = dict(counts)
            self._dirty = True


def _tool(backend: str, kept: _Tool) -> Tool:
    return Tool(
        backend=backend,
        name=kept.name,
        description=kept.description,
        input_schema=kept.input_schema,
        output_schema=kept.output_schema,
        annotations=kept.annotations,
        tags=tuple(kept.tags),
        namespace=kept.namespace,
        title=kept.title,
        repairs=tuple(kept.repairs),
    )
