"""Characters and forms that a header, URL, variable or argument must not have, for configured and registered backends."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from gatemini.config.model.backend import BackendConfig, BackendOAuth, CliTool
from gatemini.config.model.command_template import TemplateError, places
from gatemini.config.problems import KeyPath
from gatemini.text.utf8 import SURROGATE

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ValueFault:
    """A value that cannot be used, at one key of a backend."""

    path: KeyPath
    found: str
    allowed: str = ""
    remedy: str = ""
    severity: Literal["error", "warning"] = "error"


def value_faults(
    config: BackendConfig, origin: Callable[[KeyPath], str] = lambda _: "the value"
) -> Iterator[ValueFault]:
    """All faults; `origin` names the source of a value (`the value of KEY`), since the value is not shown."""
    for path, text in _texts(config):
        if SURROGATE.search(text):
            yield ValueFault(path, f"{origin(path)} holds a lone surrogate")
        elif "\0" in text:
            yield ValueFault(path, f"{origin(path)} holds a NUL character")
    yield from _headers(config, origin)
    if config.command is not None and not config.command.strip():
        yield ValueFault(("command",), "command is blank", "the name or path of a program")
    words = (config.command or "").split()
    if len(words) > 1 and not config.args and not re.search(r"[/\\]", words[0]):
        yield ValueFault(
            ("command",),
            f"command is one program, and {config.command!r} holds blanks",
            remedy=f"Write command: {words[0]} and put the rest into args",
            severity="warning",
        )
    for name in config.env:
        if not name or "=" in name or "\0" in name:
            yield ValueFault(("env", name), f"{name!r} is not a variable name")
    if config.url is not None:
        yield from _url(config.url, origin)
    for name, tool in config.cli_tools.items():
        yield from _command_line(name, tool)
    if config.oauth is not None and config.oauth.issuer is None:
        yield from _unpinned(config.oauth)
    yield from _health_check(config.health_check)
    if config.pool.min_idle > config.pool.max_instances:
        found = f"min_idle {config.pool.min_idle} is more than max_instances {config.pool.max_instances}"
        yield ValueFault(("pool", "min_idle"), found, f"at most {config.pool.max_instances}")


def _unpinned(oauth: BackendOAuth) -> Iterator[ValueFault]:
    """Warn where a secret goes to whichever issuer the server names, without a person seeing that issuer's page."""
    what = "client_secret" if oauth.client_secret is not None else "each client's token"
    if oauth.client_secret is not None or oauth.exchange is not None:
        yield ValueFault(
            ("oauth",),
            f"{what} goes to whichever issuer the server names at first",
            remedy="Write the issuer that it is for: oauth.issuer: https://…",
            severity="warning",
        )


def _command_line(name: str, tool: CliTool) -> Iterator[ValueFault]:
    path: KeyPath = ("tools", name, "command")
    try:
        places(tool)
    except TemplateError as error:
        yield ValueFault(path, str(error))


def _health_check(check: str | tuple[str, ...] | None) -> Iterator[ValueFault]:
    if not check:
        return
    try:
        words = shlex.split(check) if isinstance(check, str) else list(check)
    except ValueError as error:
        yield ValueFault(("health_check",), f"health_check cannot be split into words: {error}")
        return
    if not words or not words[0].strip():
        yield ValueFault(("health_check",), "health_check names no program", "a command, or a list of words")


def _headers(config: BackendConfig, origin: Callable[[KeyPath], str]) -> Iterator[ValueFault]:
    for name, text in config.headers.items():
        path = ("headers", name)
        if not _HEADER_NAME.match(name):
            yield ValueFault(path, f"{name!r} is not a header name", "letters, digits and -")
        bad = _CONTROL.search(text)
        if not bad and not text.isascii():
            yield ValueFault(
                path, f"{origin(path)} holds a character beyond ASCII, which a header cannot carry"
            )
        if bad:
            what = "a newline" if bad[0] in "\r\n" else "a control character"
            yield ValueFault(
                path, f"{origin(path)} holds {what}, which a header cannot carry", remedy="Remove it"
            )


def _url(url: str, origin: Callable[[KeyPath], str]) -> Iterator[ValueFault]:
    import httpx2  # noqa: PLC0415 - 37 ms, which commands of a configuration without urls do not need

    path: KeyPath = ("url",)
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        httpx2.URL(url)  # the transport reads it so: an address of letters like ①② has no host for it
    except (ValueError, httpx2.InvalidURL):
        usable = False
    if re.search(r"[\x00-\x20\x7f]", url):
        yield ValueFault(
            path, f"{origin(path)} holds a blank or control character", remedy="Write %20 for a blank"
        )
    elif not url.lower().startswith(("http://", "https://")):
        yield ValueFault(path, "the url does not begin with http:// or https://", "http://…, https://…")
    elif not usable:
        yield ValueFault(path, "the url has no usable host and port", "https://host[:port]/path")


def _texts(config: BackendConfig) -> Iterator[tuple[KeyPath, str]]:
    for name in ("command", "url", "cwd", "module"):
        value = getattr(config, name)
        if value is not None:
            yield (name,), value
    yield from ((("args", i), text) for i, text in enumerate(config.args))
    yield from ((("env", k), text) for k, text in config.env.items())
    yield from ((("headers", k), text) for k, text in config.headers.items())
