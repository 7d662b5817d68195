"""Evaluate the CEL expression of a rule, within bounds that hold for any arguments."""

from __future__ import annotations

import re
import time
from typing import Any

from gatemini.config.model.values.expressions import compile_expression
from gatemini.model import Json

CPU_SECONDS = 0.005
"""The most that one evaluation may take."""
TRIES = 2
"""Evaluations in a row that must take too long before a rule fails: a garbage collection lengthens one, not the next."""
MOST_WORK = 1_000_000
"""The most that one evaluation may have to do, in steps of some 5 ns, if everything in its loops looks at everything."""
DEPTH = 100
"""The deepest nesting of arguments: the library is recursive, and the stack of a process ends somewhere."""
_LOOPS = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter|map|sortBy|transform\w+)\s*\(")

_NAMES = re.compile(r"\b(?:args|tool|client|session|now)\b")


class WhenFailed(Exception):
    """The expression has no truth value for this call."""


class When:
    """One compiled expression.

    An evaluation cannot be interrupted, so arguments that could make it long are refused before: with one loop it may
    be quadratic in the number of values, and each further one multiplies by them.
    """

    def __init__(self, text: str) -> None:
        self._evaluate = compile_expression(text)
        self.names = frozenset(_NAMES.findall(text))
        """The variables that it may name."""
        self._loops = len(_LOOPS.findall(text))

    def __call__(self, arguments: Json, variables: Json) -> bool:
        """Return whether the expression holds. Raises WhenFailed."""
        self._check_size(arguments)
        given = {**variables, "args": arguments}
        for _ in range(TRIES):
            began = time.thread_time()
            value = self._value(given)
            if time.thread_time() - began <= CPU_SECONDS:
                break
        else:
            raise WhenFailed(f"it took more than {CPU_SECONDS * 1000:g} ms")
        if not isinstance(value, bool):
            raise WhenFailed(f"its value is {type(value).__name__}, not true or false")
        return value

    def _value(self, given: Json) -> object:
        try:
            return self._evaluate(given)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            raise WhenFailed(f"{type(error).__name__}: {error}") from None

    def _check_size(self, arguments: Json) -> None:
        values, chars = 0, 0
        pending: list[tuple[Any, int]] = [(arguments, 0)]
        while pending:
            value, depth = pending.pop()
            values += 1
            if isinstance(value, str):
                chars += len(value)
            elif isinstance(value, dict):
                chars += sum(map(len, value))
                pending += [(inner, depth + 1) for inner in value.values()]
            elif isinstance(value, list):
                pending += [(inner, depth + 1) for inner in value]
            if self._work(values + len(pending), chars) > MOST_WORK:
                raise WhenFailed("the arguments hold too many values to be looked through")
            if depth > DEPTH:
                raise WhenFailed(f"the arguments are nested more than {DEPTH} deep")

    def _work(self, values: int, chars: int) -> int:
        """The most steps for arguments of this size: to hand them over, and for each turn of the loops to look at all."""
        turns = values**self._loops if self._loops else 0
        return 60 * values + chars // 8 + turns * (25 + 8 * values + chars // 8)
