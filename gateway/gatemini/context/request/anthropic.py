"""Messages of Anthropic's API."""

from __future__ import annotations

from gatemini.context.request.json_places import Json
from gatemini.context.request.messages import Call, Message, Piece, PieceKind, Role, ToolResult


def read_message(place: Json) -> Message:
    """A message of `messages`. One with a result continues the exchange, whatever text follows the result."""
    role: Role = "assistant" if place.text_of("role") == "assistant" else "user"
    message = Message(place, role)
    content = place.get("content")
    if content is not None and content.is_string:
        message.pieces.append(Piece("text", content))
    for block in content.objects() if content is not None else ():
        _read_block(block, message)
    if message.results:
        message.role = "tool"
    return message


def _read_block(block: Json, message: Message) -> None:
    match block.text_of("type"):
        case "text":
            _add(message, "text", block.get("text"))
        case "thinking":
            _add(message, "thinking", block.get("thinking"))
        case "tool_use":
            message.calls.append(Call(block.text_of("id"), block.text_of("name") or ""))
            _add(message, "arguments", block.get("input"))
        case "tool_result":
            body, failed = block.get("content"), block.get("is_error")
            if body is not None and (body.is_string or body.is_array):
                is_error = failed is not None and failed.written == b"true"
                message.results.append(ToolResult(block.text_of("tool_use_id"), None, body, is_error))
            else:
                message.role = "tool"


def _add(message: Message, kind: PieceKind, place: Json | None) -> None:
    if place is not None and (place.is_string or kind == "arguments"):
        message.pieces.append(Piece(kind, place))
