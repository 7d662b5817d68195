"""The folder and the variables of a session, for backends that name them in `args`, `cwd` or `env`.

Loading puts a marker where `${session.cwd}` or a variable of `daemon.session_env` is named; starting an instance for a
session puts the session's value there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.model.backend import BackendConfig
from gatemini.config.model.schema import Config
from gatemini.config.variables.interpolate import SESSION_CWD
from gatemini.errors import BackendStopped

PLACES = ("args", "cwd", "env")
"""The keys of a backend in which values of a session may be named."""
# Unicode noncharacters: no configuration, environment or path has them.
_MARKER = re.compile("\ufdd0([^\ufdd0-\ufdd2]*)(?:\ufdd2([^\ufdd0-\ufdd2]*))?\ufdd1")


@dataclass(frozen=True, slots=True)
class SessionValues:
    """The folder of one session's client, and its variables, of which only those of `daemon.session_env`."""

    cwd: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


def session_environ(environ: Mapping[str, str], config: Config) -> dict[str, str]:
    """Return the variables of a client that reach backends."""
    return {name: environ[name] for name in config.daemon.session_env if name in environ}


def marker(name: str, default: str | None = None) -> str:
    """Return what takes the place of a session's value until an instance starts."""
    return f"\ufdd0{name}\ufdd1" if default is None else f"\ufdd0{name}\ufdd2{default}\ufdd1"


def session_names(value: Any) -> Iterator[str]:
    """Yield the names of session values in a text, or in the texts of a list or mapping."""
    if isinstance(value, str):
        yield from (found[1] for found in _MARKER.finditer(value))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from session_names(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from session_names(inner)


def misplaced(named: Iterable[tuple[str, str]], mode: object) -> Iterator[tuple[tuple[str], str, str]]:
    """Yield what is wrong where a backend's keys name values of the session: key, what was found, what is allowed."""
    for key, name in sorted(named):
        if key not in PLACES:
            yield (key,), f"${{{name}}} belongs to a session and is not put in here", "args, cwd, env"
        elif mode in ("shared", "singleton"):
            found = f"found {mode}, but {key} has ${{{name}}}, which differs between sessions"
            yield ("instance_mode",), found, "dedicated"


def as_written(value: Any) -> Any:
    """Return a value with session values named in its texts as the configuration does."""
    if isinstance(value, str):
        return _MARKER.sub(lambda found: f"${{{found[1]}}}", value)
    if isinstance(value, Mapping):
        return {key: as_written(inner) for key, inner in value.items()}
    return [as_written(inner) for inner in value] if isinstance(value, list | tuple) else value


def needs_session(config: BackendConfig) -> bool:
    """Whether each session has to have an instance of its own, with its values."""
    return any(True for place in PLACES for _ in session_names(getattr(config, place)))


def for_session(config: BackendConfig, values: SessionValues) -> BackendConfig:
    """Return the configuration with the values of one session. Raises BackendStopped where it lacks one."""
    if not needs_session(config):
        return config

    def filled(text: str) -> str:
        return _MARKER.sub(lambda found: _value(config.name, found[1], found[2], values), text)

    return config.model_copy(
        update={
            "args": tuple(map(filled, config.args)),
            "cwd": None if config.cwd is None else filled(config.cwd),
            "env": {
                name: value
                for name, text in config.env.items()
                if (value := filled(text))
                or text != marker(name, "")  # inherited: absent where it is not set
            },
        }
    )


def _value(backend: str, name: str, default: str | None, values: SessionValues) -> str:
    value = values.cwd if name == SESSION_CWD else values.environ.get(name, "")
    if value or default is not None:
        return value or default or ""
    what, hint = f"variable {name}", f"set {name} where the client is started"
    if name == SESSION_CWD:
        what, hint = "folder", "start the client in a folder"
    raise BackendStopped(f"{backend} needs the {what} of its client, which has none", hint=hint)
