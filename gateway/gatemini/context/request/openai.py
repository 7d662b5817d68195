"""Chat completions of OpenAI and of providers with the same format."""

from __future__ import annotations

from gatemini.context.request.json_places import Json
from gatemini.context.request.messages import Call, Message, Piece, Role, ToolResult

_ROLES: dict[str | None, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
ERROR_BEGINNINGS = ("Error", "error:", "An error occurred", "Traceback (most recent call last)")
"""The format has no flag for errors; these begin the results of failed tools in the agents' libraries."""


def read_message(place: Json) -> Message:
    """A message of `messages`."""
    message = Message(place, _ROLES.get(place.text_of("role"), "user"))
    content = place.get("content")
    if message.role == "tool":
        if content is not None and (content.is_string or content.is_array):
            call_id = place.text_of("tool_call_id")
            message.results.append(
                ToolResult(call_id, place.text_of("name"), content, _failed(place, content))
            )
        return message
    if content is not None and content.is_string:
        message.pieces.append(Piece("text", content))
    elif content is not None and content.is_array:
        for block in content.objects():
            text = block.get("text", "refusal")
            if text is not None and text.is_string:
                message.pieces.append(Piece("text", text))
    _read_calls(place, message)
    return message


def _read_calls(place: Json, message: Message) -> None:
    calls = place.get("tool_calls")
    called = (
        [(call.text_of("id"), call.get("function", "custom")) for call in calls.objects()] if calls else []
    )
    called.append((None, place.get("function_call")))
    for call_id, function in called:
        name = function.text_of("name") if function is not None else None
        if function is None or name is None:
            continue
        message.calls.append(Call(call_id, name))
        arguments = function.get("arguments", "input")
        if arguments is not None and arguments.is_string:
            message.pieces.append(Piece("arguments", arguments))


def _failed(message: Json, content: Json) -> bool:
    for key in ("is_error", "isError"):
        flag = message.get(key)
        if flag is not None and flag.written == b"true":
            return True
    return content.is_string and content.string().startswith(ERROR_BEGINNINGS)
