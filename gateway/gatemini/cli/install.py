"""`gatemini install` and `uninstall`: this gateway in the files of MCP clients, edited in place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.install_outcome import Outcome, finish
from gatemini.config.clients.table import INSTALLS, Install, install_place
from gatemini.config.documents.find import CONFIG_FILE, config_directory, find_config
from gatemini.errors import ConfigError, InvalidRequest
from gatemini.folders import from_home, home_folder
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.config.clients.client_file import ClientFile
    from gatemini.config.clients.installing import Change

_NAMES = {install.client: name for name, install in INSTALLS.items()}
"""The names of clients in CLIENT_FILES, which `import` takes, with those here."""


def install(
    *,
    clients: Sequence[str],
    every: bool,
    scope: str,
    check: bool,
    force: bool,
    url: str | None,
    token_env: str | None,
    config: Path | None,
    as_json: bool,
    **how: bool,
) -> int:
    """Put this gateway into clients' files, or with --check start what is written there."""
    if token_env and not url:
        raise shell.UsageError("gatemini install: --token-env needs --url")
    if how["take"] and url:
        raise shell.UsageError("gatemini install: --take-over goes with a gateway here, not with --url")
    chosen = _chosen("install", clients, every or (check and not clients), scope, written=check)
    if check:
        from gatemini.cli.install_check import checked

        return finish([checked(name, _file(name, scope)) for name in chosen], as_json)
    from gatemini.config.clients.own_entry import config_to_name, http_entry, launch_command, stdio_entry

    place = from_home(config) if config else config_directory() / CONFIG_FILE
    takes = how["take"] and any(_servers(_file(name, scope)) for name in chosen)
    is_named = takes or find_config(config, os.environ, config_directory()) is not None
    named = config_to_name(place if is_named else None, home_folder(), os.environ)
    outcomes: list[Outcome] = []
    for name in chosen:
        entry = (
            http_entry(INSTALLS[name], url, token_env)
            if url
            else stdio_entry(INSTALLS[name], launch_command(), named)
        )
        outcomes.append(_install(name, _file(name, scope), entry, place, force=force, as_json=as_json, **how))
    if not is_named and not url and not as_json and not how["print_only"] and any(o.ok for o in outcomes):
        shell.note(
            "there is no configuration yet, so that the demo backends are served: see `gatemini import`"
        )
    return finish(outcomes, as_json)


def uninstall(
    *,
    clients: Sequence[str],
    every: bool,
    scope: str,
    restore: bool,
    dry_run: bool,
    force: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Take this gateway out of clients' files."""
    del config
    chosen = _chosen("uninstall", clients, every, scope, written=True)
    return finish(
        [
            _uninstall(name, _file(name, scope), restore=restore, dry_run=dry_run, force=force)
            for name in chosen
        ],
        as_json,
    )


def _chosen(command: str, clients: Sequence[str], every: bool, scope: str, *, written: bool) -> list[str]:
    """The clients of a command; with `--all` those found here, or with `written` those with our entry in their file."""
    names = list(dict.fromkeys(_NAMES.get(name, name) for name in clients))
    if unknown := [name for name in names if name not in INSTALLS]:
        raise shell.UsageError(f"there is no client {unknown[0]}: {', '.join(INSTALLS)}")
    if every:
        names = [name for name in INSTALLS if _is_here(name, scope, written=written)]
        if not names:
            looked = "has gatemini in its file" if written else "was found: name one"
            raise InvalidRequest(f"no client {looked}", hint=f"the clients are {', '.join(INSTALLS)}")
    if not names:
        raise shell.UsageError(f"gatemini {command}: name a client, or --all: {', '.join(INSTALLS)}")
    return names


def _is_here(name: str, scope: str, *, written: bool) -> bool:
    from gatemini.config.clients.own_entry import OWN_NAME

    try:
        file = _file(name, scope)
    except InvalidRequest:
        return False
    if not written:
        return file.path.exists() or (
            file.path.parent.exists() and file.path.parent not in (home_folder(), Path.cwd())
        )
    return OWN_NAME in _servers(file) or (file.path.exists() and file.backup.exists())


def _servers(file: ClientFile) -> dict[str, Any]:
    """The servers of a file; none where it cannot be read."""
    from gatemini.config.clients.client_file import decoded, read_bytes
    from gatemini.config.documents.text_edit import EditRefused

    try:
        data = read_bytes(file.path)
        return {} if data is None else file.servers(decoded(data))
    except EditRefused:
        return {}


def _file(name: str, scope: str) -> ClientFile:
    from gatemini.config.clients.client_file import ClientFile

    place = install_place(INSTALLS[name], scope, home_folder(), Path.cwd(), os.environ)
    if place is None:
        raise InvalidRequest(f"{name} has no file of its own in a {scope}", hint="use --scope user")
    return ClientFile(place, INSTALLS[name].section)


def _install(
    name: str,
    file: ClientFile,
    entry: dict[str, Any],
    target: Path,
    *,
    force: bool,
    take: bool,
    print_only: bool,
    dry_run: bool,
    as_json: bool,
) -> Outcome:
    from gatemini.config.clients.installing import Foreign
    from gatemini.config.clients.own_entry import OWN_NAME
    from gatemini.config.documents.text_edit import EditRefused

    snippet = file.with_entry("", OWN_NAME, entry).rstrip("\n")
    outcome = Outcome(name, str(file.path), "printed", more={"entry": entry})
    if print_only:
        outcome.lines = [snippet]
        return outcome
    try:
        _edit(file, entry, target, outcome, force=force, take=take, dry_run=dry_run, as_json=as_json)
    except Foreign:
        outcome.status = "refused"
        outcome.detail = f"has another server named {OWN_NAME}: --force replaces it"
    except ConfigError as error:
        outcome.status, outcome.detail = "refused", f"was left as it is: {error.text()}"
    except EditRefused as error:
        outcome.status, outcome.detail = "refused", str(error)
        outcome.lines = ["untouched; add this by hand:", snippet]
    return outcome


def _edit(
    file: ClientFile,
    entry: dict[str, Any],
    target: Path,
    outcome: Outcome,
    *,
    force: bool,
    take: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write our entry into the file, after moving its servers to `target` if they are taken.

    Raises Foreign, ConfigError, EditRefused.
    """
    from gatemini.config.clients.client_file import check_writable, decoded, kept_text, read_bytes
    from gatemini.config.clients.installing import plan_install

    install = INSTALLS[outcome.client]
    data = read_bytes(file.path)
    before = None if data is None else decoded(data)
    taken = None
    servers = file.servers(before or "")  # refuses a file that cannot be edited, before anything is taken
    if take and before is not None and (servers or before.strip("\ufeff \t\r\n")):
        from gatemini.cli.take_over import planned

        taken = planned(file, install, target)
    change = plan_install(file, install, before, entry, force=force, take=taken.names if taken else ())
    if taken is not None:
        from gatemini.cli.take_over import carry_out

        # Our configuration is written first: what the client's file refuses must be found before.
        kept_text(file)
        check_writable(file.path)
        carry_out(taken, file, before or "", entry, install, outcome, dry_run=dry_run, as_json=as_json)
    elif dry_run and not as_json:
        _show_change(file, before or "", change)
    _write(file, data, change, outcome, install, dry_run=dry_run)


def _write(
    file: ClientFile,
    data: bytes | None,
    change: Change,
    outcome: Outcome,
    install: Install,
    *,
    dry_run: bool,
) -> None:
    """Replace the file unless it stays as it is, and keep its first state. Raises EditRefused."""
    from gatemini.config.clients.client_file import keep_backup, replace
    from gatemini.config.documents.text_edit import EditRefused

    outcome.status = change.status
    outcome.more |= {"changed": not dry_run and change.status != "unchanged", "taken": list(change.taken)}
    if change.status == "unchanged" or change.after is None:
        return
    if dry_run:
        outcome.detail = "nothing was written (--dry-run)"
        return
    keeps = data is not None and (change.is_first or change.taken)
    made = keeps and keep_backup(file, data or b"", change.taken)
    try:
        replace(file.path, data, change.after.encode())
    except EditRefused:
        if made:
            file.backup.unlink()
        raise
    outcome.more["backup"] = str(file.backup) if file.backup.exists() else None
    if outcome.more["backup"]:
        outcome.detail = f"its first state is kept in {file.backup.name}"
    outcome.lines.append(f"{install.then}." if install.then else "")


def _uninstall(name: str, file: ClientFile, *, restore: bool, dry_run: bool, force: bool) -> Outcome:
    from gatemini.config.clients.client_file import decoded, kept_text, read_bytes
    from gatemini.config.clients.installing import Foreign, plan_uninstall
    from gatemini.config.clients.own_entry import OWN_NAME
    from gatemini.config.documents.text_edit import EditRefused

    outcome = Outcome(name, str(file.path), "refused")
    try:
        data = read_bytes(file.path)
        change = plan_uninstall(
            file,
            INSTALLS[name],
            None if data is None else decoded(data),
            kept_text(file),
            restore=restore,
            force=force,
        )
        if not dry_run:
            _apply(file, data, change)
        elif change.status != "absent":
            outcome.detail = "nothing was written (--dry-run)"
    except Foreign:
        outcome.detail = f"has another server named {OWN_NAME}: --force removes it"
        return outcome
    except EditRefused as error:
        outcome.detail = f"{error}; untouched: remove {OWN_NAME} by hand"
        return outcome
    outcome.status = change.status
    outcome.more = {"given_back": list(change.given_back), "waiting": list(change.waiting)}
    if change.given_back:
        outcome.lines.append(f"given back: {', '.join(change.given_back)}; our configuration keeps them too")
    if change.waiting:
        outcome.lines.append(
            f"{counted(len(change.waiting), 'server')} that were taken over are still only behind the gateway: "
            f"gatemini uninstall {name} --restore gives them back"
        )
    return outcome


def _apply(file: ClientFile, data: bytes | None, change: Change) -> None:
    """Write the file, or remove one that an install had made; remove a backup that holds nothing else."""
    from gatemini.config.clients.client_file import replace

    if change.status == "absent":
        return
    if change.after is None:
        Path(os.path.realpath(file.path)).unlink()  # a link that led nowhere stays
    elif change.after.encode() != data:
        replace(file.path, data, change.after.encode())
    if not change.keeps_backup:
        file.backup.unlink(missing_ok=True)


def _show_change(file: ClientFile, before: str, change: Change) -> None:
    from gatemini.cli.import_servers import show_diff
    from gatemini.config.documents.yaml_edit import Edited

    if change.after is not None:
        show_diff(Edited(file.path, before, change.after))


_CLIENTS = shell.argument("clients", nargs="*", metavar="CLIENT", help=", ".join(INSTALLS))
_SCOPE = shell.argument(
    "--scope", choices=("user", "project"), default="user", help="for you everywhere, or for this folder"
)
_DRY = shell.argument("--dry-run", action="store_true", help="write nothing, show what would be written")
COMMANDS = (
    shell.Command(
        "install",
        install,
        [
            _CLIENTS,
            shell.argument("--all", dest="every", action="store_true", help="every client that is here"),
            _SCOPE,
            shell.argument(
                "--print", dest="print_only", action="store_true", help="print the entry, write nothing"
            ),
            _DRY,
            shell.argument("--check", action="store_true", help="start what is written, as the client would"),
            shell.argument(
                "--take-over",
                dest="take",
                action="store_true",
                help="move its other servers into our configuration",
            ),
            shell.argument("--force", action="store_true", help="replace another server named gatemini"),
            shell.argument("--url", help="connect to a gateway that serves HTTP there"),
            shell.argument(
                "--token-env", metavar="NAME", help="of --url: the variable that holds its bearer token"
            ),
        ],
        config="place",
    ),
    shell.Command(
        "uninstall",
        uninstall,
        [
            _CLIENTS,
            shell.argument("--all", dest="every", action="store_true", help="every client that has it"),
            _SCOPE,
            shell.argument(
                "--restore", action="store_true", help="give back the servers that were taken over"
            ),
            _DRY,
            shell.argument("--force", action="store_true", help="remove another server named gatemini"),
        ],
        config="place",
    ),
)
