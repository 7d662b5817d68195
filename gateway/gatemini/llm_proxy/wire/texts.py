"""The text of a whole answer."""

from __future__ import annotations

from gatemini.context import Format
from gatemini.llm_proxy.wire.answer import Value, member, objects


def text_of(body: Value, format: Format) -> str:
    """All text that the model wrote, thoughts left out."""
    if format == "openai":
        choices = objects(body.get("choices"))
        content = member(choices[0], "message").get("content") if choices else None
        return content if isinstance(content, str) else ""
    if format == "anthropic":
        blocks = [block for block in objects(body.get("content")) if block.get("type") == "text"]
    else:
        candidates = objects(body.get("candidates"))
        parts = objects(member(candidates[0], "content").get("parts")) if candidates else []
        blocks = [part for part in parts if not part.get("thought")]
    return "".join(str(block.get("text") or "") for block in blocks)
