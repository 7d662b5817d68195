"""`gatemini llm-proxy`: serve a local proxy between a program and the API of its model."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gatemini.cli import shell
from gatemini.cli.running_daemon import possible_place

if TYPE_CHECKING:
    from gatemini.config.model.context import ContextConfig

STEPS = {"trim": "history", "fold": "fold", "filter": "tools"}
"""Option → its section of `context` in the configuration."""


def llm_proxy(
    *,
    upstream: str,
    listen: str,
    trim: bool,
    fold: bool,
    filter: bool,
    all: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make requests to a model smaller on their way: point the client's base URL at the printed address."""
    from gatemini.config.load import load_config
    from gatemini.llm_proxy.server import serve

    loaded = load_config(config, environ=os.environ)
    for problem in loaded.errors:
        if problem.key.partition(".")[0] == "context":
            shell.note(problem.text())
    chosen = [name for name, given in (("trim", trim), ("fold", fold), ("filter", filter)) if given or all]
    context = switched_on(loaded.config.context, [STEPS[name] for name in chosen], cache=all)

    def announce(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    model, daemon = loaded.config.semantic.model, possible_place(config)
    serve(upstream, listen, context, model, announce, daemon=daemon)


def switched_on(config: ContextConfig, sections: list[str], *, cache: bool) -> ContextConfig:
    """The configuration with these sections on, each with the keys that are written."""
    from gatemini.config.model.context import CacheConfig, ContextConfig

    given = config.model_dump(exclude_unset=True, exclude_none=True)
    # Markers for the prompt cache are on where nothing is written, and stay on beside an option.
    if not given:
        given["cache"] = CacheConfig().model_dump()
    for section in [*sections, *(["cache"] if cache else [])]:
        given[section] = {**given.get(section, {}), "enabled": True}
    return ContextConfig.model_validate(given)


COMMANDS = (
    shell.Command(
        "llm-proxy",
        llm_proxy,
        [
            shell.argument("--upstream", required=True, metavar="URL", help="the provider, as https://api.example.com"),
            shell.argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="loopback only; port 0: any free one"),
            shell.argument("--trim", action="store_true", help="shorten old messages"),
            shell.argument("--fold", action="store_true", help="put handles in the place of results that were read"),
            shell.argument("--filter", action="store_true", help="send the tools that the next step may need"),
            shell.argument("--all", action="store_true", help="all savings, prompt-cache markers too"),
        ],
    ),
)  # fmt: skip
