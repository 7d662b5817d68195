"""Ask the user of the client by elicitation: requests and answers, as pure functions.

The gateway sends the request in the form of the client's protocol revision, as it does for backends. That a client
accepts is its word, and no proof that a person has read the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gatemini.model import Json
from gatemini.policy.approvals.grants import Approval
from gatemini.policy.approvals.shown import plain, question

ELICIT = "elicitation/create"
WHOLE = "show_whole"
"""The field by which the user asks to see long arguments whole before deciding."""


def takes_questions(can: Json) -> bool:
    """Return whether a client with these capabilities shows forms to its user."""
    elicitation = can.get("elicitation")
    return isinstance(elicitation, dict) and ("form" in elicitation or "url" not in elicitation)


def request(approvals: Sequence[Approval], *, whole: bool = False) -> Json:
    """Return the parameters of the elicitation: one question for all these calls."""
    message, complete = question(approvals, whole=whole)
    properties: Json = {}
    if len(approvals) > 1:
        for number, approval in enumerate(approvals, 1):
            title = f"Approve {number}. {plain(approval.request.qualified)}"
            properties[_field(number)] = {"type": "boolean", "title": title, "default": False}
    required = list(properties)
    if not complete:
        title = "Show the whole arguments before I decide"
        properties[WHOLE] = {"type": "boolean", "title": title, "default": False}
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"message": message, "requestedSchema": schema}


def wants_whole(answer: Json) -> bool:
    """Return whether the user wants to see all of it first."""
    return answer.get("action") == "accept" and _content(answer).get(WHOLE) is True


def decisions(approvals: Sequence[Approval], answer: Json) -> list[bool]:
    """Return for each call whether it is granted. Whatever is not an explicit yes is a no."""
    if answer.get("action") != "accept":
        return [False] * len(approvals)
    if len(approvals) == 1:
        return [True]
    content = _content(answer)
    return [content.get(_field(number)) is True for number in range(1, len(approvals) + 1)]


def _content(answer: Json) -> dict[str, Any]:
    content = answer.get("content")
    return content if isinstance(content, dict) else {}


def _field(number: int) -> str:
    return f"approve_{number}"
