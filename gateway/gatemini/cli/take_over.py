"""The part of `gatemini install` that moves a client's servers into our configuration, with what it prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gatemini.cli.import_servers import show_diff
from gatemini.cli.install_outcome import Outcome
from gatemini.config.clients.client_file import ClientFile
from gatemini.config.clients.installing import plan_install
from gatemini.config.clients.read import ClientContext
from gatemini.config.clients.table import Install
from gatemini.config.clients.take_over import Keeper, TakeOver, plan_take_over, shown_file
from gatemini.config.documents.find import config_directory
from gatemini.config.documents.yaml_edit import Edited
from gatemini.config.load import load_config
from gatemini.config.variables.keychain import KEYCHAIN_NAMES, Keychain, keyring_settings
from gatemini.config.variables.store import STORE, SecretStore
from gatemini.folders import home_folder
from gatemini.text.shorten import counted


def planned(file: ClientFile, install: Install, target: Path) -> TakeOver:
    """What moves from this file into our configuration. Raises ConfigError."""
    return plan_take_over(file, install.client, target, ClientContext(os.environ, home_folder()))


def carry_out(
    take: TakeOver,
    file: ClientFile,
    before: str,
    entry: dict[str, Any],
    install: Install,
    outcome: Outcome,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show the diffs of both files, and write ours; the client's file is written after it."""
    if not as_json:
        shown = shown_file(file, before)
        after = plan_install(file, install, shown, entry, force=True, take=take.names).after or ""
        for edited in (take.shown, Edited(file.path, shown, after)):
            if edited.changed:
                show_diff(edited)
    outcome.lines += [f"{name} stays: {why}" for name, why in take.staying.items()]
    outcome.more["staying"] = take.staying
    if dry_run:
        return
    directory = config_directory()
    settings = keyring_settings(take.target if take.target.exists() else None)
    keeper = Keeper(Keychain(settings, directory / KEYCHAIN_NAMES), SecretStore(directory / STORE))
    take.write(keeper)
    if take.names:
        outcome.lines.append(
            f"moved {counted(len(take.names), 'server')} into {take.target}: {', '.join(take.names)}"
        )
    if keeper.kept:
        where = "the keychain" if keeper.has_keychain else "the secret store"
        outcome.lines.append(f"moved {counted(len(keeper.kept), 'secret')} into {where}")
    outcome.more["moved_secrets"] = take.secrets
    outcome.lines += _not_ready(take)


def _not_ready(take: TakeOver) -> list[str]:
    """What the moved servers lack here: a variable, or an input that the client has asked its user for."""
    if not take.names:
        return []
    loaded = load_config(take.target, environ=os.environ)
    moved = {item.name for item in take.plan.items}
    return [f"{name} does not start yet: {why}" for name, why in loaded.unusable.items() if name in moved]
