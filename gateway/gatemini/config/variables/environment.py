"""The variables a configuration may use: `.env` files, each later one winning, below the process environment."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dotenv.parser import parse_stream

from gatemini.config.problems import Problem

_MAX_BYTES = 1 << 20
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_environment(
    files: Sequence[Path], process: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """Merge the files in order under the process environment; files that cannot be read are warnings."""
    merged: dict[str, str] = {}
    problems: list[Problem] = []
    for file in dict.fromkeys(files):
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
    for line in parse_stream(io.StringIO(text)):
        name, value, at = line.key, line.value, line.original.line
        if line.error:
            problems.append(_warning(file, "", "is not NAME=value and was ignored", at))
            continue
        if name is None:
            continue  # a comment, an empty line
        if value is None:
            problems.append(_warning(file, name, "has no value; write NAME=value", at))
            continue
        missing = [m for m in _VARIABLE.findall(value) if m not in known and m not in values]
        if missing:
            problems.append(_warning(file, name, f"{missing[0]} is not set, so {name} stays unset", at))
            continue
        values[name] = _VARIABLE.sub(lambda m: known.get(m[1], values.get(m[1], "")), value)
    return values


def _warning(file: Path, key: str, found: str, line: int | None = None) -> Problem:
    return Problem(str(file), line, key, found, severity="warning")
