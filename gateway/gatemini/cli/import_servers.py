"""`gatemini import`: list the servers of other clients, and with --write add them to our file, keeping a backup."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatemini.cli import shell
from gatemini.config.clients.table import CLIENTS, Source, client_name, find_sources, places
from gatemini.config.documents.find import CONFIG_FILE, check_file, config_directory
from gatemini.config.variables.store import STORE, SecretStore
from gatemini.errors import InvalidRequest
from gatemini.folders import from_home, home_folder
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.config.clients.importing import ImportItem, ImportPlan
    from gatemini.config.documents.yaml_edit import Edited
    from gatemini.config.variables.redaction import Redactor


def take_over(
    *,
    files: Sequence[Path],
    client: Sequence[str] | None,
    to: Path | None,
    write: bool,
    keep_secrets: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """List, and with --write take over, the MCP servers that other clients have configured."""
    directory = config_directory()
    target = from_home(to or config or directory / CONFIG_FILE)
    sources = _given(files) or find_sources(home_folder(), Path.cwd(), os.environ, client or ())
    from gatemini.config.clients.importing import (
        inline_values,
        move_secrets,
        plan_import,
        plan_text,
        shown_text,
    )
    from gatemini.config.clients.read import ClientContext
    from gatemini.config.variables.redaction import Redactor

    plan = plan_import(sources, target, ClientContext(os.environ, home_folder()))
    hidden = Redactor(inline_values(plan))
    keep = kept_in_store(SecretStore(directory / STORE)) if write else None
    moved = move_secrets(plan, keep) if keep_secrets else []
    edited = plan_text(plan, target)
    shown = shown_text(plan, target)
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
        _show(plan, edited, shown, hidden, moved=moved, written=write, backup=backup)
        if not plan.items and not files:
            at = places(home_folder(), Path.cwd(), os.environ, client or ())
            shell.say("looked in:\n" + "\n".join(f"  {path} ({name})" for name, path in at))
    return shell.FAILED if plan.unreadable else shell.OK


def kept_in_store(store: SecretStore) -> Callable[[str, str, bool], str]:
    """Return a function that stores a secret and returns its reference."""

    def keep(name: str, value: str, _is_end: bool) -> str:
        store.put(name, value)
        return f"${{input:{name}}}"

    return keep


def _given(files: Sequence[Path]) -> list[Source]:
    """Return the files that the command line names as sources; raises for a client's name in place of a file."""
    for name in (str(file) for file in files if str(file) in CLIENTS and not file.exists()):
        raise InvalidRequest(
            f"{name} is a client and there is no file of that name",
            hint=f"import the servers of {name}: gatemini import --from {name}",
        )
    if len(files) == 1:
        check_file(files[0], absent="Check the path.")
    return [Source("file", path) for path in files]


def _show(
    plan: ImportPlan,
    edited: Edited,
    shown: Edited,
    hidden: Redactor,
    *,
    moved: list[str],
    written: bool,
    backup: Path | None,
) -> None:
    if not plan.items and not plan.unreadable:
        shell.say("no servers found" + (f" in {', '.join(map(str, plan.read))}" if plan.read else ""))
        return
    rows: list[tuple[str, str, str]] = []
    for item in plan.items:
        state = item.status + (" (disabled)" if item.raw.get("disabled") else "")
        lines = [f"{state}: {item.detail}" if item.detail else state, *item.notes]
        lines += _clear_secrets(item, moved)
        rows.append((item.name, f"{item.client} {item.source}", hidden.redact("\n".join(lines))))
    shell.rows(("server", "from", "what becomes of it"), rows)
    for line in plan.unreadable:
        shell.note(line)
    if not plan.items:
        return
    if not edited.changed:
        shell.say("nothing to add")
    elif written:
        shell.say(
            f"added {counted(len(plan.wanted), 'backend')} to {edited.path}"
            + (f"; backup: {backup}" if backup else "")
        )
        if not edited.before and edited.path == config_directory() / CONFIG_FILE:
            shell.note(
                "the embedded demo backends are served only while there is no configuration: now these are instead"
            )
        if moved:
            shell.say(f"moved {counted(len(moved), 'secret')} into the store: {', '.join(moved)}")
    else:
        show_diff(shown)
        shell.say("nothing was written; --write does it")


def _clear_secrets(item: ImportItem, moved: Sequence[str]) -> list[str]:
    """What to do about secrets in clear text. A server that our file has already is not written again."""
    from gatemini.config.clients.inline_secrets import stored_name

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


def show_diff(edited: Edited) -> None:
    """Print what is added and removed, without the lines around, which may hold secrets."""
    import difflib

    diff = difflib.unified_diff(
        edited.before.splitlines(),
        edited.after.splitlines(),
        str(edited.path),
        str(edited.path),
        n=0,
        lineterm="",
    )
    shell.say("\n".join(diff))


COMMANDS = (
    shell.Command(
        "import",
        take_over,
        [
            shell.argument(
                "files", type=Path, nargs="*", help="client files; none: look in the usual places"
            ),
            shell.argument(
                "--from",
                dest="client",
                action="append",
                choices=CLIENTS,
                type=client_name,
                help="only this client",
            ),
            shell.argument(
                "--to", type=Path, metavar="PATH", help="our YAML file; else -c, else the default one"
            ),
            shell.argument("--write", action="store_true", help="change our file; else nothing is written"),
            shell.argument(
                "--move-secrets",
                dest="keep_secrets",
                action="store_true",
                help="put secrets in clear text into the secret store",
            ),
        ],
        config="place",
    ),
)
