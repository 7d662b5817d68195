"""`gatemini import`: the servers of other clients as backends of ours.

First a plan that changes nothing: each server with its source, what becomes of it and why. Writing adds to our own file,
keeps a backup of it, and never touches a client's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from gatemini.config.clients.inline_secrets import InlineSecret, Keep, find_secrets, without_secrets
from gatemini.config.clients.masking import masked
from gatemini.config.clients.read import ClientContext, client_entries, is_client_document
from gatemini.config.clients.table import Source
from gatemini.config.documents.document import read_document
from gatemini.config.documents.yaml_edit import Edited, add_backends
from gatemini.config.entries import Entry
from gatemini.config.model.backend import BackendConfig
from gatemini.config.problems import KeyPath, dotted, explain
from gatemini.config.variables.interpolate import Segment, TemplateError, parse_template
from gatemini.errors import ConfigError

Status = Literal["new", "same", "renamed", "self", "unusable"]


@dataclass(slots=True)
class ImportItem:
    """One server of a client's file. `raw` is in our words, ready to be written."""

    name: str
    client: str
    source: str
    status: Status
    detail: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    key: str = ""
    """Its name in the client's file."""
    notes: list[str] = field(default_factory=list)
    secrets: list[InlineSecret] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        return self.status in ("new", "renamed")

    def to_json(self) -> dict[str, Any]:
        """Without the values: names of env and headers only."""
        kind = "url" if "url" in self.raw else "command"
        return {
            "name": self.name,
            "client": self.client,
            "source": self.source,
            "status": self.status,
            "detail": self.detail,
            "disabled": self.raw.get("disabled") is True,
            "kind": kind,
            "notes": self.notes,
            "inline_secrets": [f"{secret.place}.{secret.name}" for secret in self.secrets],
        }


@dataclass(slots=True)
class ImportPlan:
    """All items, and the files that could not be read with the reason."""

    items: list[ImportItem] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)

    @property
    def wanted(self) -> list[ImportItem]:
        return [item for item in self.items if item.wanted]


def plan_import(
    sources: Iterable[Source], target: Path, context: ClientContext, *, section: KeyPath | None = None
) -> ImportPlan:
    """What an import does. Nothing is written; different servers of one name are kept under two names.

    `section`: only the servers of this mapping, so not those of single projects.
    """
    plan = ImportPlan()
    known = _existing(target)
    for source in sources:
        try:
            document = read_document(source.path)
        except ConfigError as error:
            plan.unreadable.append(f"{error.message}. {error.hint or ''}".strip())
            continue
        plan.read.append(source.path)
        if not is_client_document(document):
            continue
        for entry in client_entries(document, context, every_project=True):
            if section is None or entry.prefix[:-1] == section:
                plan.items.append(_item(entry, source, known))
    return plan


def _existing(target: Path) -> dict[str, dict[str, Any]]:
    if not target.exists():
        return {}
    document = read_document(target)
    if is_client_document(document):
        raise ConfigError(
            f"{target}: is another client's file and is never written to", hint="Name a YAML file with --to."
        )
    backends = document.value.get("backends")
    return dict(backends) if isinstance(backends, dict) else {}


def _item(entry: Entry, source: Source, known: dict[str, dict[str, Any]]) -> ImportItem:
    line = entry.document.line(entry.prefix)
    where = f"{source.path}:{line}" if line else str(source.path)
    item = ImportItem(entry.name, source.client, where, "new", key=str(entry.prefix[-1]))
    item.notes = [p.found for p in entry.notes if p.severity == "warning"]
    if entry.prefix[0] == "projects":
        item.notes.append(f"there only in the project {entry.prefix[1]}")
    if entry.is_self:
        item.status, item.detail = (
            "self",
            "is this gateway itself: skipped, it would start itself without end",
        )
        return item
    item.raw = {key: _native(value, entry) for key, value in entry.raw.items()}
    errors = [p.reason() for p in entry.notes if p.severity == "error"] + _model_errors(entry)
    errors += [
        f"{fault.found}. {fault.remedy}"
        for fault in entry.document.faults
        if entry.prefix[: len(fault.path)] == fault.path or fault.path[: len(entry.prefix)] == entry.prefix
    ]
    if errors:
        item.status, item.detail = "unusable", "; ".join(dict.fromkeys(errors))
        return item
    item.secrets = find_secrets(item.raw)
    _name(item, source, known)
    return item


def _model_errors(entry: Entry) -> list[str]:
    try:
        BackendConfig.model_validate({**entry.raw, "name": entry.name})
    except ValidationError as error:
        found = [explain(detail, BackendConfig, entry.raw) for detail in error.errors(include_url=False)]
        return [f"{dotted(path)}: {text}" if path else text for path, text, _, _ in found]
    return []


def _name(item: ImportItem, source: Source, known: dict[str, dict[str, Any]]) -> None:
    """Keep the name, or note that our file has the same server, or find a name for a different one."""
    wanted = item.name
    if wanted not in known:
        known[wanted] = item.raw
        return
    if _is_there(known[wanted], item, wanted):
        item.status, item.detail = "same", "our file has it already"
        return
    for name in (name for name in known if name.startswith(f"{wanted}-")):
        if _is_there(known[name], item, name):
            item.name, item.status, item.detail = name, "same", f"our file has it as {name}"
            return
    candidates = [f"{wanted}-{source.client}", *(f"{wanted}-{n}" for n in range(2, len(known) + 3))]
    name = next(name for name in candidates if name not in known)
    item.name, item.status = name, "renamed"
    item.detail = f"{wanted} is defined differently elsewhere: both are kept, this one as {name}"
    known[name] = item.raw


def _is_there(known: dict[str, Any], item: ImportItem, name: str) -> bool:
    """Whether our file has this server, as it is or with its secrets moved to the store."""
    if known == item.raw:
        return True
    if known != without_secrets(item.raw, item.secrets, name)[0]:
        return False
    item.secrets = []
    return True


def _native(value: Any, entry: Entry) -> Any:
    """A client's value in our file's syntax: dollars escaped, editors' words written out."""
    if isinstance(value, dict):
        return {key: _native(inner, entry) for key, inner in value.items()}
    if isinstance(value, list):
        return [_native(inner, entry) for inner in value]
    if not isinstance(value, str) or "$" not in value:
        return value
    try:
        segments = parse_template(value, dollars=entry.dollars)
    except TemplateError:
        return value.replace("$", "$$")
    return "".join(_written(segment, entry) for segment in segments)


def _written(segment: Segment, entry: Entry) -> str:
    if isinstance(segment, str):
        return segment.replace("$", "$$")
    default = segment.default
    if segment.kind == "word" and segment.name in entry.words:
        return entry.words[segment.name].replace("$", "$$")
    if segment.kind == "input" and default is None and segment.name in entry.inputs:
        default = (entry.inputs[segment.name],)
    tail = "" if default is None else ":-" + "".join(_written(inner, entry) for inner in default)
    prefix = "input:" if segment.kind == "input" else ""
    return f"${{{prefix}{segment.name}{tail}}}"


def plan_text(plan: ImportPlan, target: Path) -> Edited:
    """Our file before and after, not yet written."""
    return add_backends(target, {item.name: item.raw for item in plan.wanted})


def shown_text(plan: ImportPlan, target: Path) -> Edited:
    """The same as a diff may show it, with secrets masked."""
    return add_backends(target, {item.name: masked(item.raw) for item in plan.wanted})


def move_secrets(plan: ImportPlan, keep: Keep | None = None) -> list[str]:
    """Refer to the values that are written in clear instead of holding them; returns the names.

    Without `keep` nothing is stored.
    """
    names: list[str] = []
    for item in plan.wanted:
        item.raw, values = without_secrets(item.raw, item.secrets, item.name, keep)
        names += values
    return names


def inline_values(plan: ImportPlan) -> list[tuple[str, str]]:
    """What a diff must hide: (name, text)."""
    return [(secret.name, secret.text) for item in plan.items for secret in item.secrets]
