"""The limits of one answer and of the stages that reduce it."""

from __future__ import annotations

from dataclasses import dataclass

from gatemini.output.compact import BYTES_PER_TOKEN
from gatemini.text.size_limit import BOUNDLESS, SizeLimit

MAX_CHARS = 200_000
TABLE_THRESHOLD = 2048
CHUNK_THRESHOLD = 10_240
INTENT_THRESHOLD = 5000
TEXT_THRESHOLD = 30_000
TEXT_TARGET = 12_000


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Limits of the answer (the caller's in characters, the client's in both) and of the stages, in bytes."""

    max_chars: int = MAX_CHARS
    max_bytes: int = BOUNDLESS
    intent: str | None = None
    auto_chunk_json: bool = True
    smart_truncation: bool = True
    intent_filter: bool = True
    table: bool = True
    table_threshold: int = TABLE_THRESHOLD
    chunk_threshold: int = CHUNK_THRESHOLD
    intent_threshold: int = INTENT_THRESHOLD
    text_threshold: int = TEXT_THRESHOLD
    text_target: int = TEXT_TARGET
    named_size: bool = False
    """Whether the call itself says how much it takes: then plain text is not shortened below that."""
    budget_tokens: int | None = None

    @property
    def limit(self) -> SizeLimit:
        """The limit of text and notes together. Tokens are estimated from bytes."""
        tokens = BOUNDLESS if self.budget_tokens is None else self.budget_tokens * BYTES_PER_TOKEN
        return SizeLimit(self.max_chars, min(self.max_bytes, tokens))

    def filters(self, count: int) -> bool:
        """Whether an output of `count` bytes is to be filtered by the intent."""
        return self.intent_filter and bool(self.intent) and count > self.intent_threshold
