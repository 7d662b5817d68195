"""`gatemini import`: first the list of what would happen, then, with --write, our own file changed with a backup.

Above: main. Below: config.importing.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gatemini.cli import shell
from gatemini.config.clients import ClientContext
from gatemini.config.importing import (
    CLIENTS,
    ImportItem,
    ImportPlan,
    Source,
    find_sources,
    inline_values,
    move_secrets,
    plan_import,
    plan_text,
)
from gatemini.config.inline_secrets import stored_name
from gatemini.config.load import CONFIG_FILE, STORE, config_directory
from gatemini.config.secrets import Redactor
from gatemini.config.store import SecretStore
from gatemini.config.yaml_edit import Edited
from gatemini.folders import from_home, home_folder

app = shell.application("Take over other clients' servers.")


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


@app.command(name="import")
def take_over(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Client files; none: look in the usual places.")
    ] = None,
    client: Annotated[list[str] | None, typer.Option("--from", help=f"Only {', '.join(CLIENTS)}.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Our YAML file; else -c, else the default one.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Change our file; without it nothing is written.")
    ] = False,
    keep_secrets: Annotated[
        bool, typer.Option("--move-secrets", help="Put secrets written in clear into the secret store.")
    ] = False,
    config: shell.CONFIG = None,
    as_json: shell.JSON = False,
) -> None:
    """List, and with --write take over, the MCP servers that other clients have configured."""
    unknown = [name for name in client or () if name not in CLIENTS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]}: one of {', '.join(CLIENTS)}", param_hint="--from")
    directory = config_directory()
    target = from_home(to or config or directory / CONFIG_FILE)
    if files:
        sources = [Source("file", path) for path in files]
    else:
        sources = find_sources(home_folder(), Path.cwd(), os.environ, client or ())
    plan = plan_import(sources, target, ClientContext(os.environ, home_folder()))
    hidden = Redactor(inline_values(plan))
    moved = move_secrets(plan, SecretStore(directory / STORE), write=write) if keep_secrets else []
    edited = plan_text(plan, target)
    backup = edited.write() if write and edited.changed else None
    if as_json:
        shell.emit(
            {
                "ok": not plan.unreadable,
                "target": str(target),
                "written": write and edited.changed,
                "backup": str(backup) if backup else None,
                "moved_secrets": moved,
                "unreadable": plan.unreadable,
                "items": [item.to_json() for item in plan.items],
            }
        )
    else:
        _show(plan, edited, hidden, moved=moved, written=write, backup=backup)
    if plan.unreadable:
        raise typer.Exit(shell.FAILED)


def _show(
    plan: ImportPlan,
    edited: Edited,
    hidden: Redactor,
    *,
    moved: list[str],
    written: bool,
    backup: Path | None,
) -> None:
    if not plan.items and not plan.unreadable:
        shell.say("no servers found" + (f" in {', '.join(map(str, plan.read))}" if plan.read else ""))
        return
    table = shell.table("server", "from", "what becomes of it")
    for item in plan.items:
        state = item.status + (" (disabled)" if item.raw.get("disabled") else "")
        lines = [f"{state}: {item.detail}" if item.detail else state, *item.notes]
        lines += _clear_secrets(item, moved)
        table.add_row(item.name, f"{item.client} {item.source}", hidden.redact("\n".join(lines)))
    if plan.items:
        shell.stdout_console().print(table, markup=False)
    for line in plan.unreadable:
        shell.note(line)
    if not plan.items:
        return
    if not edited.changed:
        shell.say("nothing to add")
    elif written:
        shell.say(
            f"added {len(plan.wanted)} backends to {edited.path}" + (f"; backup: {backup}" if backup else "")
        )
        if not edited.before and edited.path == config_directory() / CONFIG_FILE:
            shell.note(
                "the embedded demo backends are served only while there is no configuration: now these are instead"
            )
        if moved:
            shell.say(f"moved {len(moved)} secrets into the store: {', '.join(moved)}")
    else:
        _show_diff(edited, hidden)
        shell.say("nothing was written; --write does it")


def _clear_secrets(item: ImportItem, moved: Sequence[str]) -> list[str]:
    """What to do about values written in clear: a server that our file has already is not written once more."""
    keys = ", ".join(secret.name for secret in item.secrets)
    if not keys:
        return []
    if item.wanted:
        found = f"holds secrets in clear ({keys}): --move-secrets puts them into the secret store"
        return [] if moved else [found]
    first = stored_name(item.name, item.secrets[0].name)
    return [
        f"our file holds its secrets in clear ({keys}): `gatemini secret set {first}` keeps one, "
        f"${{input:{first}}} goes in its place"
    ]


def _show_diff(edited: Edited, hidden: Redactor) -> None:
    diff = difflib.unified_diff(
        edited.before.splitlines(),
        edited.after.splitlines(),
        str(edited.path),
        str(edited.path),
        n=0,  # what stands around may be a secret of ours
        lineterm="",
    )
    shell.say("\n".join(hidden.redact(line) for line in diff))
