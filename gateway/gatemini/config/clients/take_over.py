"""Move the servers of one client's file into our configuration: what would move, and where its secrets go."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gatemini.config.clients.client_file import ClientFile
from gatemini.config.clients.importing import (
    ImportPlan,
    move_secrets,
    plan_import,
    plan_text,
    shown_text,
)
from gatemini.config.clients.masking import masked
from gatemini.config.clients.read import ClientContext
from gatemini.config.clients.server_sections import project_sections
from gatemini.config.clients.table import Source
from gatemini.config.documents.document import read_document
from gatemini.config.documents.text_edit import value_at
from gatemini.config.documents.yaml_edit import Edited
from gatemini.config.variables.keychain import Keychain
from gatemini.config.variables.store import SecretStore
from gatemini.errors import ConfigError


@dataclass(slots=True)
class TakeOver:
    """The servers of one file that move, those that stay with the reason, and our file before and after."""

    plan: ImportPlan
    target: Path
    names: tuple[str, ...]
    staying: dict[str, str]
    shown: Edited
    secrets: list[str] = field(default_factory=list)

    def write(self, keeper: Keeper) -> None:
        """Store the secrets and write our file, of which a backup is kept."""
        self.secrets = move_secrets(self.plan, keeper.keep)
        edited = plan_text(self.plan, self.target)
        if edited.changed:
            edited.write()


def plan_take_over(file: ClientFile, client: str, target: Path, context: ClientContext) -> TakeOver:
    """What a take-over of this file moves. Raises ConfigError where our file cannot be added to."""
    plan = plan_import([Source(client, file.path)], target, context, section=file.section)
    moving = [item for item in plan.items if item.wanted or item.status == "same"]
    staying = {item.key: item.detail for item in plan.items if item.status == "unusable"}
    document = read_document(file.path)
    for path in project_sections(document):  # other projects may not start those
        staying |= dict.fromkeys(value_at(document.value, path), f"is of the project {path[1]} only")
    return TakeOver(plan, target, tuple(item.key for item in moving), staying, shown_text(plan, target))


def shown_file(file: ClientFile, text: str) -> str:
    """The client's file as a diff may show it: its servers without secrets. Raises EditRefused."""
    for name, server in file.servers(text).items():
        if isinstance(server, dict) and (shown := masked(server)) != server:
            text = file.with_entry(text, name, shown)
    return text


@dataclass(slots=True)
class Keeper:
    """Keeps secrets in the keychain where there is one, else in the secret store; `kept` has their references."""

    keychain: Keychain
    store: SecretStore
    kept: list[str] = field(default_factory=list)
    has_keychain: bool = True

    def keep(self, name: str, value: str, is_end: bool) -> str:
        """Store a value and return its reference; one of the keychain must be the end of its text."""
        reference = ""
        if self.has_keychain and is_end:
            try:
                self.keychain.put(name, value)
                reference = f"secretref:keyring:{name}"
            except ConfigError:
                self.has_keychain = False
        if not reference:
            self.store.put(name, value)
            reference = f"${{input:{name}}}"
        self.kept.append(reference)
        return reference
