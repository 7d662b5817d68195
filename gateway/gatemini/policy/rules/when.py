"""Evaluate the CEL expression of a rule, within bounds that hold for any arguments."""

from __future__ import annotations

import re
import time
from typing import Any

from gatemini.config.model.expressions import compile_expression
from gatemini.model import Json

CPU_SECONDS = 0.005
"""The most that one evaluation may take."""
STEPS = 20_000
"""The most steps that the loops of one expression may make: 0.13 µs each."""
TEXT_CHARS = 1 << 20
"""The most characters in all arguments together."""
_LOOPS = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter|map|sortBy|transform\w+)\s*\(")

_NAMES = re.compile(r"\b(?:args|tool|client|session|now)\b")


class WhenFailed(Exception):
    """The expression has no truth value for this call."""


class When:
    """One compiled expression.

    An evaluation cannot be interrupted, so arguments that could make it long are refused before: an expression with
    two loops may be quadratic in the number of values.
    """

    def __init__(self, text: str) -> None:
        self._evaluate = compile_expression(text)
        self.names = frozenset(_NAMES.findall(text))
        """The variables that it may name."""
        self.of_client = self.names.isdisjoint({"args", "session"})
        """Whether it has one value for all calls of a tool by a client at a time."""
        self._most_values = int(STEPS ** (1 / max(1, len(_LOOPS.findall(text)))))

    def __call__(self, arguments: Json, variables: Json) -> bool:
        """Return whether the expression holds. Raises WhenFailed."""
        self._check_size(arguments)
        began = time.thread_time()
        try:
            value = self._evaluate({**variables, "args": arguments})
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            raise WhenFailed(f"{type(error).__name__}: {error}") from None
        if time.thread_time() - began > CPU_SECONDS:
            raise WhenFailed(f"it took more than {CPU_SECONDS * 1000:g} ms")
        if not isinstance(value, bool):
            raise WhenFailed(f"its value is {type(value).__name__}, not true or false")
        return value

    def _check_size(self, arguments: Json) -> None:
        values, chars, pending = 0, 0, [arguments]
        while pending:
            value: Any = pending.pop()
            values += 1
            if isinstance(value, str):
                chars += len(value)
            elif isinstance(value, dict):
                chars += sum(map(len, value))
                pending += value.values()
            elif isinstance(value, list):
                pending += value
            if values + len(pending) > self._most_values or chars > TEXT_CHARS:
                raise WhenFailed("the arguments hold too many values to be looked through")
