"""Redact secret values in text; a type that does not print itself, and the names that look secret."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import takewhile
from typing import Any
from urllib.parse import quote, quote_plus

from gatemini.config.variables.interpolate import PATH_SAFE
from gatemini.text.utf8 import encode

CUT_MARKS = ("…", "...")
"""The marks that every place leaves where it cuts a text."""
_NEAR = 16
"""Characters beside a piece in which such a mark is looked for: blanks may be between them."""
MIN_REDACTED = 6
"""Shorter values occur by chance in any text, and hiding them would garble answers."""
_MIN_LINE = 12
"""Lines of a multi-line secret (a key file) are hidden one by one from this length on."""
_SECRET_WORD = re.compile(
    r"(?:^|[_\-.])(?:token|secret|password|passwd|pwd|passphrase|credentials?|auth|authorization|bearer|cookie|"
    r"(?:api|access|private|secret|auth|license|subscription|encryption|signing)[_\-.]?key|apikey|key|pat|dsn)(?:$|[_\-.])",
    re.IGNORECASE,
)
_ORDINARY = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SHELL", "TERM", "PWD", "HOSTNAME")
)
"""Every child gets these anyway: hiding a home directory in all answers would hide paths, not secrets."""


class SecretText(str):
    """A text with a masked repr; used as text it is the value itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'«secret»'"


def looks_secret(name: str) -> bool:
    """Whether a variable or header name says that its value is a secret."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _SECRET_WORD.search(spaced) is not None


def is_ordinary(name: str) -> bool:
    """Variables of the login itself (HOME, PATH …), which are never secrets."""
    return name in _ORDINARY or name.startswith(("XDG_", "LC_"))


class Redactor:
    """Replaces every known secret in text that leaves by `«secret NAME»`; values in use stay as they are."""

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._names: dict[str, str] = {}
        self._order: list[str] = []
        self.add(secrets)

    def add(self, secrets: Iterable[tuple[str, str]]) -> None:
        """Know more secrets (a registered backend's); shorter than six characters are ignored."""
        for name, value in secrets:
            for form in _forms(str(value)):
                self._names.setdefault(form, name)
        self._order = sorted(self._names, key=len, reverse=True)

    @property
    def forms(self) -> Mapping[str, str]:
        """The spellings of every secret, each with the name that is shown instead."""
        return self._names

    @classmethod
    def of_forms(cls, forms: Mapping[str, str]) -> Redactor:
        """A redactor with the spellings of another one."""
        made = cls()
        made._names = dict(forms)
        made._order = sorted(made._names, key=len, reverse=True)
        return made

    def redact(self, text: str) -> str:
        """The text without secrets; the longest match wins, and replacements are never scanned again.

        Texts are cut in many places before they leave, the guest among them: a piece of `MIN_REDACTED` or more
        characters right before or after the mark of a cut is taken for the secret.
        """
        present = [form for form in self._order if form in text]
        if present:
            text = self._without(text, present)
        if any(mark in text for mark in CUT_MARKS):
            for form in self._order:
                text = self._without_pieces(text, form)
        return text

    def _without(self, text: str, forms: Sequence[str]) -> str:
        """The text without these, the longest first, put together from what lies between them."""
        pattern = re.compile("|".join(map(re.escape, forms)))
        return pattern.sub(lambda match: self._instead(match[0]), text)

    def _instead(self, form: str) -> str:
        return f"«secret {self._names[form]}»"

    def _without_pieces(self, text: str, form: str) -> str:
        """`tok_ABCDEF…` and `…uvwxyz` of `tok_ABCDEF…uvwxyz`."""
        instead = self._instead(form)
        text = _without_beginnings(text, form, instead)
        if (
            form[-MIN_REDACTED:] in text
        ):  # an end is the beginning of the reversed text; the marks read the same
            text = _without_beginnings(text[::-1], form[::-1], instead[::-1])[::-1]
        return text

    def value(self, value: Any) -> Any:
        """The same for everything inside a JSON value or a dataclass, keys included; the value itself is left alone."""
        if not self._order:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {
                self.redact(key) if isinstance(key, str) else key: self.value(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        if is_dataclass(value) and not isinstance(value, type):
            inner = {part.name: self.value(getattr(value, part.name)) for part in fields(value)}
            return replace(value, **inner)
        return value


def _without_beginnings(text: str, form: str, instead: str) -> str:
    """The text with each beginning of `form` directly before the mark of a cut replaced."""
    head = form[:MIN_REDACTED]
    parts: list[str] = []
    done, at = 0, text.find(head)
    while at >= 0:
        pairs = zip(form, text[at : at + len(form)], strict=False)
        end = at + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if text[end : end + _NEAR].lstrip().startswith(CUT_MARKS):
            parts += text[done:at], instead
            done = end
        at = text.find(head, max(done, at + 1))
    return "".join([*parts, text[done:]]) if parts else text


class RedactingFormatter(logging.Formatter):
    """A log format without secrets in its lines, tracebacks included."""

    def __init__(self, redactor: Redactor, form: str) -> None:
        super().__init__(form)
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.redact(super().format(record))


def start_log(redactor: Redactor, form: str, *handlers: logging.Handler) -> None:
    """Log what a serving gateway does through these handlers: without secrets, and of libraries only warnings."""
    for handler in handlers:
        handler.setFormatter(RedactingFormatter(redactor, form))
    logging.basicConfig(level=logging.INFO, handlers=handlers)
    for library in ("mcp", "httpx", "httpx2", "httpcore", "watchfiles"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _in_base64(value: bytes) -> set[str]:
    """What base64 of a text shows of a value inside it, such as `user:secret`, for each of the three offsets.

    The characters that also hold bits of what is before or after the value are left out.
    """
    forms: set[str] = set()
    for offset in range(3):
        first = (8 * offset + 5) // 6
        end = 8 * (offset + len(value)) // 6
        for written in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(written(bytes(offset) + value).decode()[first:end])
    return forms


def _forms(value: str) -> set[str]:
    """The spellings of a value: raw, in URLs, in JSON, in HTML, in base64, its lines one by one."""
    if len(value) < MIN_REDACTED:
        return set()
    forms = {value, value.strip(), quote(value, safe=""), quote(value), quote_plus(value)}
    forms.add(quote(value, safe=PATH_SAFE))
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    escaped |= {form.replace("/", "\\/") for form in escaped}  # PHP and others escape slashes
    nested = {json.dumps(form, ensure_ascii=False)[1:-1] for form in escaped}  # JSON inside JSON
    forms |= escaped | nested | {form.replace("/", "\\/") for form in nested}
    quoted = html.escape(value)
    forms |= {quoted, html.escape(value, quote=False), quoted.replace("&#x27;", "&#39;")}
    forms |= {
        quoted.replace("&#x27;", "&apos;"),
        quoted.replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    }
    forms |= _in_base64(encode(value))
    if "\n" in value:
        forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_LINE}
    return {form for form in forms if len(form) >= MIN_REDACTED}
