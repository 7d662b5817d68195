"""The problems that a running gateway reports."""

from __future__ import annotations

from gatemini.config.load import Loaded


def config_problems(loaded: Loaded, reload_problem: str | None) -> list[str]:
    """Return the problems of the configuration in force, and why a changed one is not, one sentence each."""
    found = [str(problem) for problem in loaded.problems]
    if loaded.source is None:
        found.append("no configuration file: serving the embedded demo backends (shop, notes, clock)")
    if reload_problem:
        found.append(f"the changed configuration is not in force: {reload_problem}")
    return found
