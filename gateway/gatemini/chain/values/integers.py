"""Integers beyond 2^53, which JavaScript cannot hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from gatemini.output.json.javascript_json import MAX_SAFE_INTEGER


def with_wide_integers(value: Any, replaced: Callable[[int], Any]) -> Any:
    """Return a copy in which integers beyond 2^53 are `replaced`, or the value itself where it has none.

    Iterative: values nest as deep as they like.
    """
    try:
        orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
        return value
    except (orjson.JSONEncodeError, RecursionError):
        holder = [value]
    work: list[tuple[Any, Any]] = [(holder, 0)]
    while work:
        container, key = work.pop()
        item = container[key]
        if isinstance(item, dict | list):
            container[key] = copy = item.copy()
            work += [(copy, k) for k in (copy if isinstance(copy, dict) else range(len(copy)))]
        elif isinstance(item, int) and not isinstance(item, bool) and abs(item) > MAX_SAFE_INTEGER:
            container[key] = replaced(item)
    return holder[0]
