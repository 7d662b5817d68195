"""A gateway for the length of one command: opened, used, closed, with its secrets hidden from all output."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gatemini.cli.shell import note, note_no_configuration
from gatemini.errors import GateminiError

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.config.load import Loaded
    from gatemini.config.variables.redaction import Redactor

SETTLE_SECONDS = 60.0
"""The longest a command waits for backends that are still starting; late ones are named."""
MODEL_SECONDS = 60.0
"""The longest a search from the terminal waits for the vectors of a configured model."""

Result = TypeVar("Result")


def with_app(config: Path | None, action: Callable[[App], Awaitable[Result]]) -> Result:
    """Open the gateway, run the action, close it. Its result and its errors come back without secrets."""
    import anyio

    from gatemini.app import App
    from gatemini.config.variables.redaction import RedactingFormatter, Redactor

    hide = Redactor()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(hide, "gatemini: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler])

    async def session() -> Result:
        async with App.open(config) as app:
            hide.add(app.loaded.secrets)
            app.registry.search_with = "Use `gatemini search`"
            note_problems(app.loaded)
            found: Result = hide.value(await action(app))
            return found

    try:
        return anyio.run(session)
    except GateminiError as error:
        raise _without_secrets(error, hide) from None
    except BaseExceptionGroup as group:
        first = first_error(group)
        if isinstance(first, GateminiError):
            raise _without_secrets(first, hide) from None
        raise first from group


def _without_secrets(error: GateminiError, hide: Redactor) -> GateminiError:
    error.message = hide.redact(error.message)
    error.hint = hide.redact(error.hint) if error.hint else None
    return error


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a task group wrapped: ours if there is one, else the first."""
    ours = group.subgroup(GateminiError)
    found: BaseException = ours if ours is not None else group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def note_problems(loaded: Loaded) -> None:
    """Errors of the configuration in short; `gatemini config check` has them in full."""
    if loaded.source is None:
        note_no_configuration()
    for name, reason in loaded.unusable.items():
        note(f"backend {name} is disabled: {reason}")
    noted = tuple(f"backends.{name}" for name in loaded.disabled)
    for problem in loaded.errors:
        if not any(problem.key == key or problem.key.startswith(f"{key}.") for key in noted):
            note(problem.text())


async def settle(app: App) -> None:
    """Wait until every backend is ready or has failed, and name those that are neither."""
    if await app.settled(timeout=SETTLE_SECONDS):
        return
    late = [status.name for status in app.manager.statuses() if status.state == "starting"]
    note(f"still starting after {SETTLE_SECONDS:g} s: {', '.join(late)}")


async def settle_search(app: App) -> None:
    """Also wait until search ranks by meaning, as it does for an agent, where a model is configured."""
    import anyio

    await settle(app)
    with anyio.move_on_after(MODEL_SECONDS):
        await app.embedding.ready()


def redactor(app: App) -> Redactor:
    from gatemini.config.variables.redaction import Redactor

    return Redactor(app.loaded.secrets)
