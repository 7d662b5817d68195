"""The variables a configuration may use: three `.env` files, each later one winning, and the process above all.

Above: load. Below: python-dotenv's parser.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dotenv import dotenv_values

from gatemini.config.problems import Problem

_MAX_BYTES = 1 << 20
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_environment(
    files: Sequence[Path], process: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """Merge the files in order under the process environment; files that cannot be read are warnings."""
    merged: dict[str, str] = {}
    problems: list[Problem] = []
    seen: set[Path] = set()
    for file in files:
        if file in seen:
            continue
        seen.add(file)
        merged.update(read_env_file(file, {**merged, **process}, problems))
    return {**merged, **process}, problems


def read_env_file(
    file: Path, known: Mapping[str, str], problems: list[Problem], *, must_exist: bool = False
) -> dict[str, str]:
    """The pairs of one `.env` file; `${OTHER}` in a value is taken from `known` and the lines above."""
    try:
        if not must_exist and not file.is_file():
            return {}
        with file.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            problems.append(_warning(file, "", "is larger than 1 MiB and was not read"))
            return {}
        text = data.decode("utf-8-sig")
    except OSError as error:
        problems.append(_warning(file, "", f"cannot be read: {os.strerror(error.errno or 0)}"))
        return {}
    except UnicodeDecodeError:
        problems.append(_warning(file, "", "is not UTF-8 text and was not read"))
        return {}
    values: dict[str, str] = {}
    for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items():
        if value is None:
            problems.append(_warning(file, name, "has no value; write NAME=value"))
            continue
        missing = [m for m in _VARIABLE.findall(value) if m not in known and m not in values]
        if missing:
            problems.append(_warning(file, name, f"{missing[0]} is not set, so {name} stays unset"))
            continue
        values[name] = _VARIABLE.sub(lambda m: known.get(m[1], values.get(m[1], "")), value)
    return values


def _warning(file: Path, key: str, found: str) -> Problem:
    return Problem(str(file), None, key, found, severity="warning")
