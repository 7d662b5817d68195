"""`gatemini init`: write a commented configuration where the gateway looks for it; never over an existing file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from gatemini.cli import shell
from gatemini.config.documents.find import CONFIG_FILE, config_directory
from gatemini.errors import InvalidRequest
from gatemini.folders import from_home
from gatemini.processes.own_files import write_private

STARTER = """\
# Gatemini configuration. Check it with `gatemini config check`, try it with `gatemini doctor`.
# All keys: docs/reference/configuration.md, or `gatemini config schema`.

backends:
  # The three embedded demo backends, as they are served while there is no file: replace them by your own.
  shop:
    module: gatemini.demo.shop:server
  notes:
    module: gatemini.demo.notes:server
  clock:
    module: gatemini.demo.clock:server

  # A server that is started as a process:
  # files:
  #   command: npx
  #   args: [-y, "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]

  # A server behind a URL. A variable that is not set disables only this backend, and says so.
  # search:
  #   url: https://mcp.example.com/mcp
  #   headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}
  #   timeout: 1m

# What agents may register by themselves with register_manual. These are the defaults: before a program is
# started or a server is contacted, a person is asked. deny refuses; allow does not ask, and takes only what
# allow_commands and allow_hosts list.
registration:
  http: ask
  stdio: ask
  cli: ask

# Other clients' files can be used as they are:
# include: [~/.cursor/mcp.json]
"""


def init(*, config: Path | None, as_json: bool) -> None:
    """Write a commented configuration; an existing file is left alone."""
    path = from_home(config or config_directory() / CONFIG_FILE)
    if path.exists():
        raise InvalidRequest(f"{path} is there already", hint="edit it, or give another place with -c")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, STARTER)
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}", hint="give another place with -c"
        ) from error
    from gatemini.config.load import load_config

    loaded = load_config(path, environ=os.environ)
    if as_json:
        shell.emit({"ok": True, "path": str(path), "backends": list(loaded.config.backends)})
    else:
        shell.say(f"wrote {path}")
        here = f" -c {shlex.quote(str(path))}" if config else ""
        shell.note(f"next: edit it, then `gatemini{here} config check` and `gatemini{here} doctor`")


COMMANDS = (shell.Command("init", init, config="place"),)
