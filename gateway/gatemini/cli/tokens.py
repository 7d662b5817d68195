"""`gatemini token create | list | revoke`: the tokens with which clients log in over HTTP."""

from __future__ import annotations

import argparse
import functools
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gatemini.cli import shell
from gatemini.cli.login_records import record_login
from gatemini.errors import InvalidRequest

if TYPE_CHECKING:
    from gatemini.config.load import Loaded

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LASTING = re.compile(r"(\d{1,5})([mhd])")


def _file(config: Path | None) -> Path:
    """The token file of the configuration. Raises InvalidRequest where it has none."""
    return _configured(config)[1]


def _configured(config: Path | None) -> tuple[Loaded, Path]:
    """The configuration and its token file. Raises InvalidRequest where it has none."""
    from gatemini.config.load import load_config
    from gatemini.upkeep.slow_secrets import Awaited

    loaded = load_config(config, environ=os.environ, answers=Awaited().answers)
    tokens = loaded.config.http.auth.tokens
    if tokens is None or loaded.source is None:
        raise InvalidRequest(
            "the configuration names no token file",
            hint="http: {auth: {tokens: {file: tokens.yaml}}} names one beside the configuration",
        )
    return loaded, loaded.source.parent / tokens.file


def lasting(text: str) -> timedelta | None:
    """An argument type: `90d`, `12h`, `30m` or `never`."""
    if text == "never":
        return None
    match = _LASTING.fullmatch(text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text}: allowed are 30m, 12h, 90d and never")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def names(text: str) -> tuple[str, ...]:
    """An argument type: names with commas or blanks between them."""
    return tuple(text.replace(",", " ").split())


def create(
    *,
    client: str,
    scopes: tuple[str, ...],
    tools: tuple[str, ...] | None,
    expires: timedelta | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make a token for a client; it is shown once."""
    import anyio

    from gatemini.http.auth import tokens as file

    loaded, path = _configured(config)
    token, entry = file.create(path, client, scopes, tools, expires)
    about = {"token": entry.id, "of": client, "scopes": scopes, "tools": tools, "expires": entry.expires}
    anyio.run(functools.partial(record_login, loaded, "token create", outcome="created", **about))
    until = f"until {entry.expires:%Y-%m-%d %H:%M} UTC" if entry.expires else "without an end"
    shell.note(f"token {entry.id} of {client}, {until}; it is not shown again, {path} has its hash only")
    facts = {"id": entry.id, "client": client, "token": token, "expires": entry.expires}
    shell.result(facts, token, as_json=as_json)


def listed(*, config: Path | None, as_json: bool) -> None:
    """The tokens of the file, never the tokens themselves."""
    from gatemini.http.auth.tokens import read_tokens

    path = _file(config)
    entries = read_tokens(path) if path.exists() else ()
    if as_json:
        shell.emit({"tokens": [each.model_dump(mode="json", exclude={"sha256"}) for each in entries]})
        return
    now = datetime.now(UTC)
    lines = [
        (
            each.id,
            each.client,
            "revoked" if each.revoked else "counts" if each.holds(now) else "expired",
            f"{each.expires:%Y-%m-%d}" if each.expires else "never",
            " ".join(each.scopes),
            " ".join(each.tools) if each.tools is not None else "*",
        )
        for each in entries
    ]
    shell.rows(("id", "client", "state", "expires", "scopes", "tools"), lines)


def revoke(*, ident: str, config: Path | None, as_json: bool) -> None:
    """Revoke one token by its id, or all tokens of a client; running servers know within a second."""
    import anyio

    from gatemini.http.auth import tokens as file

    loaded, path = _configured(config)
    revoked = [each.id for each in file.revoke(path, ident)]
    anyio.run(functools.partial(record_login, loaded, "token revoke", outcome="revoked", tokens=revoked))
    shell.result({"revoked": revoked}, f"revoked: {', '.join(revoked)}", as_json=as_json)


COMMANDS = (
    shell.Command(
        "create",
        create,
        [
            shell.argument("--client", required=True, metavar="NAME", help="the client, as http.clients matches it"),
            shell.argument("--scopes", type=names, default=(), metavar="A,B", help="scopes that rules may ask for"),
            shell.argument("--tools", type=names, metavar="GLOBS", help="only these tools, as backend.*; else all"),
            shell.argument("--expires", type=lasting, default="90d", metavar="90d", help="30m, 12h, 90d or never"),
        ],
    ),
    shell.Command("list", listed),
    shell.Command("revoke", revoke, [shell.argument("ident", metavar="ID", help="a token's id, or a client")]),
)  # fmt: skip
