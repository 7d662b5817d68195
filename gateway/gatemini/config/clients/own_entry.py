"""The entry of this gateway in a client's file: what is written, and whether an entry that is there is ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gatemini.config.clients.table import Install
from gatemini.config.command_words import starts_gatemini
from gatemini.errors import InvalidRequest

OWN_NAME = "gatemini"
CONFIG_VARIABLE = "GATEMINI_CONFIG"
_WRITTEN = (
    "command",
    "args",
    "url",
    "serverUrl",
    "httpUrl",
    "type",
    "source",
    "headers",
    "bearer_token_env_var",
)
"""The keys that an update of our entry replaces; others are the user's."""


def launch_command() -> list[str]:
    """The absolute command line of this installation: its console script, else its interpreter."""
    folder = Path(sys.executable).absolute().parent
    script = folder / ("gatemini.exe" if sys.platform == "win32" else "gatemini")
    return [str(script)] if script.exists() else [str(folder / Path(sys.executable).name), "-m", "gatemini"]


def stdio_entry(install: Install, command: list[str], config: Path | None) -> dict[str, Any]:
    """What starts the gateway; `config` is named unless the gateway finds it by itself."""
    entry: dict[str, Any] = {**install.stdio, "command": command[0], "args": command[1:]}
    if sys.platform == "win32":
        entry["args"] = [*command[1:], "--direct"]
    return {**entry, "env": {CONFIG_VARIABLE: str(config)}} if config else entry


def http_entry(install: Install, url: str, token_env: str | None) -> dict[str, Any]:
    """What connects to a gateway that serves HTTP; the token stays in its variable. Raises InvalidRequest."""
    if install.url is None:
        raise InvalidRequest(
            f"{install.client} takes no server behind a URL in its file", hint="Leave --url out for it"
        )
    entry: dict[str, Any] = {**install.http, install.url: url}
    if token_env is None:
        return entry
    if install.variable is None:
        raise InvalidRequest(
            f"{install.client} fills no variables into its file, so that the token would have to be written there",
            hint="Leave --url out for it: it then starts the gateway here",
        )
    kind, _, key = install.variable.partition("key:")
    if key:
        return {**entry, key: token_env}
    return {**entry, "headers": {"Authorization": f"Bearer {kind % token_env}"}}


def is_ours(entry: Any, install: Install) -> bool:
    """Whether an entry starts this program, or is one that `install --url` writes."""
    if not isinstance(entry, dict):
        return False
    command = entry.get("command")
    if isinstance(command, dict):  # Zed's older form
        return starts_gatemini(command.get("path"), command.get("args"))
    if isinstance(command, list):
        return starts_gatemini(command[0] if command else None, command[1:])
    if command is not None:
        return starts_gatemini(command, entry.get("args"))
    url = entry.get(install.url) if install.url else None
    return isinstance(url, str) and entry in _http_forms(install, url, entry)


def _http_forms(install: Install, url: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    forms = [http_entry(install, url, None)]
    if install.variable is not None:
        named = entry.get("bearer_token_env_var")
        header = entry.get("headers", {}).get("Authorization", "") if "headers" in entry else ""
        inside = str(header).rpartition("{")[2].rstrip("}").removeprefix("env:")
        forms.append(http_entry(install, url, str(named or inside)))
    return forms


def merged(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """The new entry with what else the user has written into the old one."""
    kept = {key: value for key, value in old.items() if key not in (*_WRITTEN, "env")}
    env = old.get("env")
    others = {n: v for n, v in env.items() if n != CONFIG_VARIABLE} if isinstance(env, dict) else {}
    env = {**others, **new.get("env", {})}
    result = {**{key: value for key, value in new.items() if key != "env"}, **kept}
    return {**result, "env": env} if env or ("env" in old and not others) else result


def config_to_name(given: Path | None, home: Path, environ: Mapping[str, str]) -> Path | None:
    """The configuration that an entry must name, since a client without our variables would not find it.

    `given` is what `-c` and the variables say, or the default place; None where there is no configuration.
    """
    if given is None:
        return None
    base = "Library/Application Support" if sys.platform == "darwin" else ".config"
    found_alone = home / base / "gatemini" / "config.yaml"
    path = Path(os.path.abspath(given))
    return None if path == found_alone else path
