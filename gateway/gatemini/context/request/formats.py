"""A request of one of the three formats: recognised, checked, and read as far as it is looked into."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gatemini.context.request import anthropic, gemini, openai
from gatemini.context.request.json_places import Json, read_json
from gatemini.context.request.messages import Format, Message
from gatemini.context.request.tool_definitions import Definition, definitions
from gatemini.errors import InvalidRequest
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

FORMATS: tuple[Format, ...] = ("openai", "anthropic", "gemini")
_PATHS: tuple[tuple[re.Pattern[str], Format], ...] = (
    (re.compile(r"/chat/completions/?$"), "openai"),
    (re.compile(r"/messages(/count_tokens)?/?$"), "anthropic"),
    (re.compile(r"/models/[^/]+:(generateContent|streamGenerateContent|countTokens)$"), "gemini"),
)
_READERS = {
    "openai": openai.read_message,
    "anthropic": anthropic.read_message,
    "gemini": gemini.read_message,
}
_NO_LIST = {"openai": "messages", "anthropic": "messages", "gemini": "contents"}

_SAY_SOMETHING = ("user", "system", "developer", "tool")
"""Roles whose messages have a content; an assistant's may have calls only."""

_NEVER_NULL = ("user", "system", "developer")


class NotARequest(InvalidRequest):
    """Input that is no request of the format; `field` is the first member that shows it, empty for the whole."""

    code = "context.not_a_request"

    def __init__(self, field: str, found: str, allowed: str) -> None:
        self.field = field
        super().__init__(f"{field or 'the input'}: found {found}, allowed is {allowed}")


@dataclass(slots=True)
class Request:
    """A request; its messages and tools are read when they are looked into."""

    format: Format
    root: Json
    array: Json
    """The array of messages."""
    _messages: list[Message] | None = field(default=None, repr=False)
    _tools: list[Definition] | None = field(default=None, repr=False)

    @property
    def data(self) -> bytes:
        return self.root.data

    @property
    def messages(self) -> list[Message]:
        if self._messages is None:
            read = _READERS[self.format]
            self._messages = [read(item) for item in self.array.items()]
        return self._messages

    @property
    def tools(self) -> list[Definition]:
        if self._tools is None:
            self._tools = definitions(self.root, self.format)
        return self._tools

    @property
    def system(self) -> Json | None:
        """The system text that has a member of its own."""
        if self.format == "openai":
            return None
        return self.root.get("system") if self.format == "anthropic" else self.root.get(*SYSTEM_INSTRUCTION)

    @property
    def called(self) -> list[str]:
        """Names of the tools that were called, in order, each once."""
        return list(dict.fromkeys(call.name for message in self.messages for call in message.calls))


SYSTEM_INSTRUCTION = ("systemInstruction", "system_instruction")


def user_message(format: Format, text: str) -> bytes:
    """A message of the user's."""
    if format == "gemini":
        return encode(dump({"role": "user", "parts": [{"text": text}]}))
    return encode(dump({"role": "user", "content": text}))


def format_of_path(path: str) -> Format | None:
    """The format of a request by the path of its URL; None where it is none of ours."""
    plain = path.partition("?")[0]
    return next((format for pattern, format in _PATHS if pattern.search(plain)), None)


def parse_request(data: bytes, format: Format | None = None, *, checked: bool = False) -> Request:
    """Read a request's bytes. Without `format` its members decide. Raises NotARequest.

    `checked`: its messages are those of a request that was read before.
    """
    root = read_json(data)
    if root is None:
        raise NotARequest("", "no JSON, or nesting beyond 900 levels", "the JSON object of a request")
    if not root.is_object:
        raise NotARequest("", _a(root.kind), "the JSON object of a request")
    format = format or _guess(root)
    key = _NO_LIST[format]
    messages = root.get(key)
    if messages is None:
        raise NotARequest(key, "nothing", f"the array of messages of the format {format}")
    if not messages.is_array:
        raise NotARequest(key, _a(messages.kind), "an array of messages")
    if not checked:
        _check_tools(root)
        for index, item in enumerate(messages.items()):
            _check_message(item, f"{key}[{index}]", format)
    return Request(format, root, messages)


def _guess(root: Json) -> Format:
    if root.get("contents") is not None:
        return "gemini"
    if any(tool.get("input_schema") is not None for tool in _objects(root.get("tools"))):
        return "anthropic"
    if root.get("system", "anthropic_version") is not None:
        return "anthropic"
    blocks = (
        block for message in _objects(root.get("messages")) for block in _objects(message.get("content"))
    )
    own = any(block.text_of("type") in ("tool_use", "tool_result", "thinking") for block in blocks)
    return "anthropic" if own else "openai"


def _objects(place: Json | None) -> list[Json]:
    return place.objects() if place is not None else []


def _check_tools(root: Json) -> None:
    _check_list(root.get("tools"), "tools", "tool definitions")


def _check_message(message: Json, at: str, format: Format) -> None:
    """Refuse what no message can look like; what is only unknown passes."""
    if not message.is_object:
        raise NotARequest(at, _a(message.kind), "an object")
    role = message.get("role")
    if role is None:
        if format != "gemini":
            raise NotARequest(f"{at}.role", "nothing", "the message's role")
    elif not role.is_string:
        raise NotARequest(f"{at}.role", _a(role.kind), "a string")
    if format == "gemini":
        _check_list(message.get("parts"), f"{at}.parts", "parts", nothing="an array of parts")
        return
    content = message.get("content")
    if content is None and role is not None and role.string() in _SAY_SOMETHING:
        raise NotARequest(f"{at}.content", "nothing", "a string or an array of blocks")
    if content is not None and not content.is_string:
        if content.kind == "null" and role is not None and role.string() in _NEVER_NULL:
            raise NotARequest(f"{at}.content", "null", "a string or an array of blocks")
        _check_list(content, f"{at}.content", "blocks", also="a string or ")
    _check_list(message.get("tool_calls"), f"{at}.tool_calls", "calls")


def _check_list(place: Json | None, at: str, of: str, *, also: str = "", nothing: str = "") -> None:
    """`nothing`: what is allowed where the member is required."""
    if place is None:
        if nothing:
            raise NotARequest(at, "nothing", nothing)
        return
    if place.kind == "null" and not nothing:
        return
    if not place.is_array:
        raise NotARequest(at, _a(place.kind), f"{also}an array of {of}")
    for index, item in enumerate(place.items()):
        if not item.is_object:
            raise NotARequest(f"{at}[{index}]", _a(item.kind), "an object")


def _a(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'ao' else 'a'} {kind}"
