"""`gatemini pin`, `pin diff`, `pin approve`: keep the lock file of servers, and say in words what changed in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.open_gateway import settle, with_app
from gatemini.errors import BackendNotFound, InvalidRequest
from gatemini.text.escape import visible
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.policy.pins.compare import Verdict

PROMPTS_SECONDS = 30.0
"""The longest that servers may take to list their prompts."""


def pin(*, action: str | None, names: list[str], config: Path | None, as_json: bool) -> int:
    """Approve servers that have no pin yet; diff: what changed since; approve backend[.tool]: take it as it is now."""
    if action == "approve" and not names:
        raise shell.UsageError("gatemini pin approve: name what to approve: backend, or backend.tool")
    if action is None and names:
        raise shell.UsageError(f"gatemini pin: diff or approve {names[0]}?")

    async def act(gateway: App) -> dict[str, Any]:
        await _observe(gateway)
        asked = [_split(gateway, name) for name in names]
        backends, lock = {backend for backend, _ in asked}, str(gateway.pins.path)

        def differences() -> list[dict[str, Any]]:
            return _differences(gateway, backends, whole=as_json)

        if action == "diff":
            return {"lock": lock, "backends": differences()}
        # Shown as it is approved: the server may list something else than it did for `pin diff`.
        changes = _only(differences(), asked) if action == "approve" else []
        done = _approve(gateway, asked) if action == "approve" else _begin(gateway)
        if done:
            gateway.pins.save()
        return {"lock": lock, "approved": done, "changes": changes, "backends": differences()}

    answer = with_app(config, act)
    if as_json:
        shell.emit(answer)
    else:
        _show(answer, action)
    return shell.FAILED if action == "diff" and answer["backends"] else shell.OK


async def _observe(gateway: App) -> None:
    """Wait for all servers and their prompts; what was never approved is not approved by looking at it."""
    import anyio

    from gatemini.upkeep.pinning import pinned_programs

    if gateway.loaded.source is None:
        raise InvalidRequest("there is no configuration file, beside which the lock file would be")
    pins = gateway.pins
    pins.mode = "enforce"
    await settle(gateway)
    pins.read(pinned_programs(gateway.loaded))
    if pins.problem is not None:
        raise InvalidRequest(pins.problem)
    pins.judge_all()
    up = {status.name for status in gateway.manager.statuses() if str(status.state) == "healthy"}
    with anyio.move_on_after(PROMPTS_SECONDS):
        while any(known.offers is None for name, known in pins.backends.items() if name in up):
            await pins.news.wait()
    for status in gateway.manager.statuses():
        if status.name not in up:
            shell.note(f"{visible(status.name)} does not run, its pins stay: {status.error or status.state}")


def _split(gateway: App, name: str) -> tuple[str, str | None]:
    """(backend, tool or prompt) of a name as it is typed."""
    backend, _, tool = name.partition(".")
    known = gateway.pins.backends.get(backend)
    if known is None or known.said is None:
        there = ", ".join(sorted(gateway.pins.backends)) or "none"
        raise BackendNotFound(f"there is no backend {backend} that runs", hint=f"backends: {there}")
    named = {*known.comparison.tools, *known.comparison.prompts}
    if tool and tool not in named:
        raise InvalidRequest(f"{backend} has no tool or prompt {tool}, and had none")
    return backend, tool or None


def _begin(gateway: App) -> list[str]:
    """Approve the servers that were never approved."""
    pins = gateway.pins
    new = [name for name, known in pins.backends.items() if known.said and name not in pins.lock.backends]
    for name in new:
        pins.approve(name)
    _record(gateway, new)
    return sorted(new)


def _approve(gateway: App, asked: list[tuple[str, str | None]]) -> list[str]:
    for backend, tool in asked:
        changes = gateway.pins.backends[backend].comparison.backend
        if tool is not None and changes and backend in gateway.pins.lock.backends:
            text = f"{backend} itself is another one: {'; '.join(changes)}"
            raise InvalidRequest(text, hint=f"`gatemini pin approve {backend}` approves all of it")
        gateway.pins.approve(backend, tool)
    done = [backend if tool is None else f"{backend}.{tool}" for backend, tool in asked]
    _record(gateway, done)
    return done


def _record(gateway: App, done: list[str]) -> None:
    if gateway.audit is not None and done:
        from gatemini.policy.principal import local

        gateway.audit.event(
            "pin", needed=True, approved=done, principal=local("cli").id, client="gatemini pin"
        )
    gateway.pins.judge_all()


def _differences(gateway: App, only: set[str], *, whole: bool) -> list[dict[str, Any]]:
    """What is not as it was approved, a row a backend, with the changes inside of definitions where they are known.

    `whole`: all changes, with whole texts.
    """
    from gatemini.policy.pins import definitions

    approved = definitions.read_definitions(definitions.definitions_file(gateway.pins.path))
    rows = []
    for name, known in sorted(gateway.pins.backends.items()):
        pinned = gateway.pins.lock.backends.get(name)
        if known.comparison.same or (only and name not in only):
            continue
        row: dict[str, Any] = {"backend": name, "server": list(known.comparison.backend)}
        for kind, verdicts, now, pins in (
            ("tools", known.comparison.tools, known.tools.values(), pinned and pinned.tools),
            ("prompts", known.comparison.prompts, known.offers or (), pinned and pinned.prompts),
        ):
            listed = {tool.name: tool for tool in now}
            row[kind] = [
                _row(
                    tool,
                    verdict,
                    definitions.approved(
                        approved,
                        name,
                        definitions.key_of(tool, prompt=kind == "prompts"),
                        (pins or {}).get(tool),
                    ),
                    definitions.definition(listed[tool]) if tool in listed else None,
                    whole,
                )
                for tool, verdict in sorted(verdicts.items())
                if verdict.state != "approved"
            ]
        rows.append(row)
    return rows


def _only(rows: list[dict[str, Any]], asked: list[tuple[str, str | None]]) -> list[dict[str, Any]]:
    """The differences that approving `asked` approves: all of a backend's, or those of the named tools and prompts."""
    found = []
    for row in rows:
        tools = {tool for backend, tool in asked if backend == row["backend"]}
        if None not in tools:
            named = {
                kind: [each for each in row[kind] if each["name"] in tools] for kind in ("tools", "prompts")
            }
            row = {**row, "server": [], **named}
        found.append(row)
    return found


def _row(
    name: str, verdict: Verdict, old: dict[str, Any] | None, now: dict[str, Any] | None, whole: bool
) -> dict[str, Any]:
    from gatemini.policy.pins.words import changes_of

    if old is None and verdict.state == "new":
        old = {}  # a person approves what it says, not that it is new
    detail = changes_of(old, now, whole=whole) if old is not None and now is not None else []
    return {"name": name, "state": verdict.state, "why": verdict.words, "changes": detail}


def _show(answer: dict[str, Any], action: str | None) -> None:
    _show_rows(answer.get("changes", ()))
    for name in answer.get("approved", ()):
        shell.say(f"approved {visible(name)}")
    _show_rows(answer["backends"])
    if answer["backends"]:
        count = counted(len(answer["backends"]), "backend")
        shell.note(
            f"{count} not as approved in {answer['lock']}; --json shows each change and text whole, "
            "and `gatemini pin approve` takes it as it is now"
        )
    elif action == "diff" or not answer.get("approved"):
        shell.say("everything is as it was approved")


def _show_rows(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        backend = visible(row["backend"])
        for change in row["server"]:
            shell.say(f"{backend}: {visible(change)}")
        for kind in ("tools", "prompts"):
            for tool in row[kind]:
                name = f"{backend}.{visible(tool['name'])}" + (" (prompt)" if kind == "prompts" else "")
                shell.say(f"{name}: {visible(tool['why'])}")
                for change in tool["changes"]:
                    shell.say(f"    {change}")


COMMANDS = (
    shell.Command(
        "pin",
        pin,
        [
            shell.argument(
                "action",
                nargs="?",
                choices=("diff", "approve"),
                help="diff: what changed since it was approved; approve: take it as it is now",
            ),
            shell.argument(
                "names", nargs="*", metavar="backend[.tool]", help="which; for diff all by default"
            ),
        ],
    ),
)
