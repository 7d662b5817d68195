"""Redact secret values in text; a type that does not print itself, and the names that look secret."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from gatemini.config.variables.spellings import CUT_MARKS, MIN_REDACTED, Spelling, runs_of, spellings

_SECRET_WORD = re.compile(
    r"(?:^|[_\-.])(?:token|secret|password|passwd|pwd|passphrase|credentials?|auth|authorization|bearer|cookie|"
    r"(?:api|access|private|secret|auth|license|subscription|encryption|signing)[_\-.]?key|apikey|key|pat|dsn)(?:$|[_\-.])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[0-9]{1,4000}(?:\.[0-9]{1,400})?")
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
        self.secrets: dict[str, str] = {}
        """Values, each with the name that is shown instead."""
        self._spellings: list[Spelling] = []
        self._numbers: dict[float, str] = {}
        """Secrets that a number can be, each with its name."""
        self.add(secrets)

    def add(self, secrets: Iterable[tuple[str, str]]) -> None:
        """Know more secrets (a registered backend's); shorter than six characters are ignored."""
        for name, value in secrets:
            if str(value) not in self.secrets:
                self.secrets[str(value)] = name
                self._spellings += spellings(name, str(value))
        self._spellings.sort(key=lambda spelling: len(spelling.tokens), reverse=True)
        self._numbers = dict(_numbers(self.secrets))

    def replace(self, name: str, values: Iterable[str]) -> None:
        """Know these values under this name, and forget those that were known before: tokens change every few minutes."""
        wanted = {value for value in values if value not in self.secrets or self.secrets[value] == name}
        for old in [value for value, known in self.secrets.items() if known == name and value not in wanted]:
            del self.secrets[old]
        self._spellings = [each for each in self._spellings if each.name != name]
        for value in wanted:
            self.secrets.pop(value, None)
        self.add((name, value) for value in wanted)

    def redact(self, text: str) -> str:
        """The text without secrets; the longest match wins, and replacements are never scanned again.

        Texts are cut in many places before they leave, the guest among them: a piece of `MIN_REDACTED` or more
        characters right before or after the mark of a cut is taken for the secret.
        """
        runs = runs_of(text) if self._spellings else ""
        present = [spelling for spelling in self._spellings if spelling.may_be_in(text, runs)]
        if present:
            pattern = "|".join(f"({spelling.pattern})" for spelling in present)
            text = re.sub(pattern, lambda match: _instead(present[(match.lastindex or 1) - 1].name), text)
        if any(mark in text for mark in CUT_MARKS):
            for spelling in self._spellings:
                text = spelling.without_pieces(text, runs, _instead(spelling.name))
        return text

    def _mapping(self, mapping: Mapping[Any, Any], numbers: bool) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, inner in mapping.items():
            shown = first = self.redact(key) if isinstance(key, str) else key
            number = 1
            while shown in found:  # two spellings of one secret: neither hides the other's value
                number += 1
                shown = f"{first} ({number})"
            found[shown] = self.value(inner, numbers=numbers)
        return found

    def value(self, value: Any, *, numbers: bool = False) -> Any:
        """Return a JSON value or a dataclass without secrets in its texts and keys; the value given is not changed.

        `numbers`: a number that spells a secret becomes a text too. Not for messages, in which numbers must be numbers.
        """
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return self._mapping(value, numbers)
        if isinstance(value, list | tuple):
            return [self.value(inner, numbers=numbers) for inner in value]
        if is_dataclass(value) and not isinstance(value, type):
            inner = {
                part.name: self.value(getattr(value, part.name), numbers=numbers) for part in fields(value)
            }
            return replace(value, **inner)
        if numbers and self._numbers and isinstance(value, int | float):
            return self._number(value)
        return value

    def arguments(self, value: Any) -> Any:
        """Return arguments of a call without secrets: code may pass a secret of digits as a number."""
        return self.value(value, numbers=True)

    def _number(self, number: float) -> Any:
        if (name := self._numbers.get(number)) is not None:
            return _instead(name)
        text = str(number)
        shown = self.redact(text)
        return number if shown == text else shown


def _numbers(secrets: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Yield the values of secrets that are numbers of enough digits, with their names."""
    for value, name in secrets.items():
        if _NUMBER.fullmatch(value):
            number = float(value) if "." in value else int(value)
            if len(str(number)) >= MIN_REDACTED:
                yield number, name


def _instead(name: str) -> str:
    return f"«secret {name}»"


LIBRARIES = (
    "httpcore", "httpcore2", "httpx", "httpx2", "jeepney", "keyring", "mcp", "redis", "sse_starlette", "uvicorn", "watchfiles",
)  # fmt: skip
"""Libraries of which only warnings are logged: what some log below that has headers, answers, values of the keychain."""


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
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
