"""Why a chain cannot be resumed, as errors for the agent."""

from __future__ import annotations

from gatemini.errors import ResumeRefused

KNOWN_FIRST = "send the code without `@resume`, once you know what is still to be done"


def differs(how: str) -> ResumeRefused:
    """The code does not do what the record has."""
    return ResumeRefused(f"the code does not do the same again: {how}", hint=KNOWN_FIRST)


def result_gone(call: str, why: str) -> ResumeRefused:
    """The code read a stored result that is not kept any more."""
    return ResumeRefused(f"{call} read a result that is gone ({why})", hint=KNOWN_FIRST)


def unanswered(call: str) -> ResumeRefused:
    """A call may have had its effect, and must not be repeated."""
    return ResumeRefused(
        f"{call} was sent and never answered, and its tool is neither read-only nor idempotent: "
        "repeating it could do the same thing twice",
        hint="find out whether it happened, then send code that does only what is left",
    )


def overtaken(chain: str) -> ResumeRefused:
    """Another replica goes on with the chain."""
    return ResumeRefused(f"chain {chain} is not run here any more: another replica has resumed it")
