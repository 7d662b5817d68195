"""Records of registrations in the audit log: what was asked for before it starts, and what became of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gatemini.errors import GateminiError
from gatemini.model import Json
from gatemini.policy.audit.record import is_too_deep
from gatemini.policy.canonical import canonical
from gatemini.policy.door import Door
from gatemini.protocol.sessions.client_session import Session

MOST_BYTES = 64 << 10
"""A larger template is recorded as its size and hash, and so is one that nests too deeply for a record."""
MOST_NAME = 200
"""Characters of a backend's name that are recorded."""
_NAMES_ONLY = ("env", "headers")
"""Mappings of which only the names are recorded: an agent may write a secret that no configuration knows."""


@contextmanager
def recorded(door: Door | None, name: str, arguments: Any, session: Session) -> Iterator[None]:
    """Record a call of `register_manual` or `deregister_manual`, before and after what is done meanwhile.

    Raises AuditFailed where the log must be written and cannot be.
    """
    if door is None or door.audit is None:
        yield
        return
    who = session.who
    about: Json = {"session": session.id, "principal": who.id, "client": who.client, "asked": name}
    door.audit.event("registration", needed=True, **about, **_wanted(arguments))
    outcome = "cancelled"
    try:
        yield
        outcome = "ok"
    except GateminiError as error:
        outcome = error.code
        raise
    finally:
        door.audit.event("registration", **about, outcome=outcome)


def _wanted(arguments: Any) -> Json:
    """What the record keeps of the arguments; anything but a mapping is refused later."""
    given = arguments if isinstance(arguments, dict) else {}
    template = given.get("manual_call_template")
    if not isinstance(template, dict):
        return {"backend": str(given.get("manual_name", ""))[:MOST_NAME]}
    names = {
        key: sorted(map(str, template[key])) for key in _NAMES_ONLY if isinstance(template.get(key), dict)
    }
    kept: Json = {**template, **names}
    text = canonical(kept)
    if len(text) > MOST_BYTES or is_too_deep(b'{"template":%b}' % text):
        kept = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    return {"backend": str(template.get("name", ""))[:MOST_NAME], "template": kept}
