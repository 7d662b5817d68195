"""What outlives a gateway: tools and era of each backend, types of results, and usage counts.

One private JSON file, written as a whole. It is not trusted when read: a file that is not exactly of this form is
renamed to `cache.json.bad`, and the gateway starts without it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatemini.folders import cache_folder
from gatemini.model import Json, Tool
from gatemini.processes.own_files import NotOurs, read_own, replace_own

VERSION: Final = 3
SAVE_EVERY_SECONDS = 5.0
"""The shortest time between two saves of a running gateway."""
MAX_BYTES = 256 << 20
"""A larger file is not ours."""

logger = logging.getLogger(__name__)


class _Backend(BaseModel):
    """An entry of the file; replaced and never changed, so that a copy of the dict around it is a snapshot."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    config: str
    era: str | None = None
    tools: list[Tool] = Field(default_factory=list)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[3] = VERSION
    backends: dict[str, _Backend] = Field(default_factory=dict)
    usage: dict[str, int] = Field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = Field(default_factory=dict)


def default_path() -> Path:
    return cache_folder() / "cache.json"


def config_hash(config: BaseModel | Mapping[str, Any]) -> str:
    """The key of a backend's tools: any change of its configuration makes them stale.

    A hash, so that no secret of the configuration reaches the disk.
    """
    plain = config.model_dump(mode="json") if isinstance(config, BaseModel) else dict(config)
    return hashlib.sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Cache:
    """The content of the file: `load` it at the start, `save` it when `due`."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        """`redact` removes secrets from a JSON value: a backend may repeat its key in what it lists."""
        self.path = path or default_path()
        self._redact = redact
        self.problem: str | None = None
        """Why the last load did not use a file that was there."""
        self._clock = clock
        self._file = _File()
        self._dirty = False
        self._saved_at: float | None = None

    # -- the file ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file. Never raises for its content: a bad file is renamed, and `problem` says why."""
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
            found = _File.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = f" at {'.'.join(map(str, first['loc']))}" if first["loc"] else ""
            self._start_cold(f"cannot be used{where}: {first['msg']}", set_aside=True)
            return
        if any(tool.backend != name for name, entry in found.backends.items() for tool in entry.tools):
            self._start_cold("holds tools under another backend's name", set_aside=True)
            return
        self._file = found

    def _start_cold(self, why: str, *, set_aside: bool) -> None:
        self._file = _File()
        self.problem = f"the cache {self.path} {why}"
        if set_aside:
            aside = self.path.with_name(self.path.name + ".bad")
            try:
                os.replace(self.path, aside)
                self.problem += f"; set aside as {aside.name}"
            except OSError as error:
                self.problem += f"; it could not be set aside: {error.strerror or error}"
        self.problem += "; starting without it"

    @property
    def due(self) -> bool:
        """Whether something changed, and the last save is long enough ago."""
        if not self._dirty:
            return False
        return self._saved_at is None or self._clock() - self._saved_at >= SAVE_EVERY_SECONDS

    def save(self) -> bool:
        """Write the whole file; False, with a warning, if that fails.

        May run in a worker thread: it writes a snapshot, and what changes meanwhile is due again.
        """
        self._saved_at = self._clock()
        self._dirty = False
        content = {
            "version": self._file.version,
            "backends": {name: dict(entry) for name, entry in self._file.backends.copy().items()},
            "usage": self._file.usage,
            "seen": self._file.seen,
        }
        try:
            replace_own(self.path, orjson.dumps(self._redact(content)), lasting=True)
        except (OSError, TypeError, ValueError, RecursionError) as error:
            self._dirty = True
            logger.warning("the cache %s could not be written: %s", self.path, error)
            return False
        return True

    # -- content -----------------------------------------------------------------------------------

    def tools(self, backend: str, config: str) -> list[Tool] | None:
        """The tools that were listed under exactly this configuration (`config_hash`), else None."""
        entry = self._file.backends.get(backend)
        if entry is None or entry.config != config:
            return None
        return entry.tools.copy()

    def put_tools(self, backend: str, config: str, tools: Iterable[Tool]) -> bool:
        """Keep the tools that a backend listed; whether they differ from those kept."""
        entry = _Backend(config=config, era=self.era(backend, config), tools=list(tools))
        return self._put(backend, entry)

    def era(self, backend: str, config: str) -> str | None:
        """The era of the backend's last handshake under this configuration."""
        entry = self._file.backends.get(backend)
        return entry.era if entry and entry.config == config else None

    def put_era(self, backend: str, config: str, era: str) -> None:
        self._put(backend, _Backend(config=config, era=era, tools=self.tools(backend, config) or []))

    def _put(self, backend: str, entry: _Backend) -> bool:
        if self._file.backends.get(backend) == entry:
            return False
        self._file.backends[backend] = entry
        self._dirty = True
        return True

    def forget(self, backends: Iterable[str]) -> None:
        """Drop backends that were removed from the configuration.

        Others stay, because gateways with other configurations may share the file.
        """
        for name in backends:
            self._dirty = self._file.backends.pop(name, None) is not None or self._dirty

    @property
    def usage(self) -> dict[str, int]:
        """Uses by tool, for `Tracker.load_usage`."""
        return dict(self._file.usage)

    def put_usage(self, counts: Mapping[str, int]) -> None:
        """Replace the counts; those of `Tracker.dump_usage` include what was loaded."""
        if self._file.usage != counts:
            self._file.usage = dict(counts)
            self._dirty = True

    @property
    def seen(self) -> dict[str, Json]:
        """Shapes of results, for `SeenResults`."""
        return dict(self._file.seen)

    def put_seen(self, shapes: Mapping[str, Json]) -> None:
        """Replace the shapes; those of `SeenResults.shapes` include what was loaded."""
        if self._file.seen != shapes:
            self._file.seen = dict(shapes)
            self._dirty = True
