"""`gatemini init`: write a commented configuration where the gateway looks for it; never over an existing file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from gatemini.cli import shell
from gatemini.cli.starters import DEVELOPER, locked
from gatemini.config.documents.find import CONFIG_FILE, config_directory
from gatemini.errors import InvalidRequest
from gatemini.folders import from_home
from gatemini.processes.own_files import write_private

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.policy.flow.starter import Known, Proposal


def init(*, profile: str, labels: bool, config: Path | None, as_json: bool) -> None:
    """Write a commented configuration, or propose labels for the one there is; an existing file is left alone."""
    if labels:
        _propose_labels(config, as_json=as_json)
        return
    path = from_home(config or config_directory() / CONFIG_FILE)
    if path.exists():
        raise InvalidRequest(f"{path} is there already", hint="edit it, or give another place with -c")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, locked() if profile == "locked" else DEVELOPER)
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be written: {error.strerror}", hint="give another place with -c"
        ) from error
    from gatemini.config.load import load_config

    loaded = load_config(path, environ=os.environ)
    if as_json:
        backends = list(loaded.config.backends)
        shell.emit({"ok": True, "path": str(path), "profile": profile, "backends": backends})
    else:
        shell.say(f"wrote {path}")
        here = f" -c {shlex.quote(str(path))}" if config else ""
        pin = f", `gatemini{here} pin`" if profile == "locked" else ""
        shell.note(f"next: edit it, then `gatemini{here} config check`{pin} and `gatemini{here} doctor`")


def _propose_labels(config: Path | None, *, as_json: bool) -> None:
    """Print labels for the backends of a configuration, guessed from names, for review; nothing is written."""
    from gatemini.cli.open_gateway import settle, with_app
    from gatemini.policy.flow.starter import propose, section

    async def look(app: App) -> list[Proposal]:
        await settle(app)
        return propose(_known(app))

    found = with_app(config, look)
    if as_json:
        shell.emit({"proposals": [{"tools": p.globs, "labels": p.labels, "why": p.why} for p in found]})
    else:
        shell.say(section(found).rstrip("\n"))


def _known(app: App) -> list[Known]:
    """What the names of each backend say, and whether all its tools count as closed-world."""
    from gatemini.config.model.policy import PolicyConfig
    from gatemini.policy.flow.starter import Known
    from gatemini.policy.rules.hints import HintRules

    hints = HintRules(app.loaded.config.policy or PolicyConfig())
    known = []
    for name in app.manager.names():
        config, tools = app.manager.config(name), app.registry.backend_tools(name)
        said = [name, os.path.basename(config.command or ""), config.module or "", config.url or ""]
        said += [
            word for word in config.args if not word.startswith(("/", ".", "~", "-")) and "=" not in word
        ]
        closed = all(not hints.of(tool).open_world for tool in tools)
        known.append(Known(name, tuple(said), tuple(tool.name for tool in tools), closed))
    return known


COMMANDS = (
    shell.Command(
        "init",
        init,
        [
            shell.argument(
                "--profile",
                choices=("developer", "locked"),
                default="developer",
                help="locked: strict defaults, for an install that a security review approves",
            ),
            shell.argument(
                "--labels",
                action="store_true",
                help="write nothing; propose labels for policy.flow, from the names of this configuration's servers",
            ),
        ],
        config="place",
    ),
)
