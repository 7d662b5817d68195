"""The answers of each format."""

from __future__ import annotations

from gatemini.context import Format
from gatemini.llm_proxy.wire.answer import Wire
from gatemini.llm_proxy.wire.anthropic import AnthropicWire
from gatemini.llm_proxy.wire.gemini import GeminiWire
from gatemini.llm_proxy.wire.openai import OpenAIWire

WIRES: dict[Format, Wire] = {
    "openai": OpenAIWire(),
    "anthropic": AnthropicWire(),
    "gemini": GeminiWire(),
}
