"""What the three formats have in common: messages with texts, calls and results, each with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gatemini.context.request.json_places import Json
from gatemini.output.compact import BYTES_PER_TOKEN

Format = Literal["openai", "anthropic", "gemini"]
Role = Literal["system", "user", "assistant", "tool"]
"""`tool`: a message of nothing but results, whatever its format calls it."""
PieceKind = Literal["text", "thinking", "arguments"]
Counter = Callable[[str], int]
"""Tokens of a text."""


def tokens_of(text: str) -> int:
    """The estimate used everywhere: UTF-8 bytes / 4, rounded up."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that a message carries. Only `text` may be shortened: the others are the model's own."""

    kind: PieceKind
    place: Json

    @property
    def text(self) -> str:
        return (
            self.place.string() if self.place.is_string else self.place.compact().decode("utf-8", "replace")
        )


@dataclass(slots=True)
class ToolResult:
    """The result of a call. `body` is what the tool's side wrote: a string, an array of blocks, an object."""

    call_id: str | None
    name: str | None
    body: Json
    is_error: bool = False
    _text: str | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The text that the model reads, images left out."""
        if self._text is None:
            self._text = self._read()
        return self._text

    def _read(self) -> str:
        if self.body.is_array:
            blocks = (block.text_of("text") for block in self.body.objects())
            return "\n".join(text for text in blocks if text is not None)
        return self.body.string() if self.body.is_string else self.body.compact().decode("utf-8", "replace")

    @property
    def only_text(self) -> bool:
        """Whether `text` is all of it."""
        return not self.body.is_array or all(item.text_of("text") is not None for item in self.body.items())


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool."""

    call_id: str | None
    name: str


@dataclass(slots=True)
class Message:
    """A message (Gemini: a content) and what of it counts."""

    place: Json
    role: Role
    pieces: list[Piece] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)

    @property
    def texts(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.kind == "text"]

    def tokens(self, count: Counter = tokens_of) -> int:
        """Tokens of the text it carries: content, arguments, results."""
        carried = [*(piece.text for piece in self.pieces), *(result.text for result in self.results)]
        return sum(map(count, carried))
