"""Contents of Gemini's `generateContent`, in the spellings of JSON and of protobuf."""

from __future__ import annotations

from gatemini.context.request.json_places import Json
from gatemini.context.request.messages import Call, Message, Piece, Role, ToolResult


def read_message(place: Json) -> Message:
    """A content of `contents`; without a role it is the user's."""
    role: Role = "assistant" if place.text_of("role") == "model" else "user"
    message = Message(place, role)
    parts = place.get("parts")
    for part in parts.objects() if parts is not None else ():
        _read_part(part, message)
    if message.results:
        message.role = "tool"
    return message


def _read_part(part: Json, message: Message) -> None:
    text = part.get("text")
    if text is not None and text.is_string:
        thought = part.get("thought")
        is_thought = thought is not None and thought.written == b"true"
        # A signature belongs to the very text it came with.
        signed = part.get("thoughtSignature", "thought_signature") is not None
        message.pieces.append(Piece("thinking" if is_thought or signed else "text", text))
    call = part.get("functionCall", "function_call")
    if call is not None:
        message.calls.append(Call(call.text_of("id"), call.text_of("name") or ""))
        arguments = call.get("args")
        if arguments is not None:
            message.pieces.append(Piece("arguments", arguments))
    answer = part.get("functionResponse", "function_response")
    if answer is not None:
        body = answer.get("response")
        if body is not None and body.is_object:
            failed = body.get("error")
            is_error = failed is not None and failed.kind != "null"
            message.results.append(ToolResult(answer.text_of("id"), answer.text_of("name"), body, is_error))
        else:
            message.role = "tool"
