"""`context`: what `gatemini llm-proxy` does to requests, and the options of the same names in `gatemini context`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from gatemini.config.model.backend import Strict

ALWAYS_INCLUDED = ("read", "exec", "bash", "write", "edit", "glob", "grep")


class HistoryConfig(Strict):
    """Cap old messages, then drop the oldest, once the history has more than `max_history_tokens`."""

    enabled: bool = True
    """Off: requests pass unchanged."""
    history_trimming: bool = True
    """The same switch under the name that agents' own configurations use."""
    max_history_tokens: int = Field(default=16_000, ge=1)
    """Tokens (bytes/4) of all messages but system ones, from which on trimming begins."""
    keep_recent_exchanges: int = Field(default=20, ge=0)
    """Exchanges at the end that stay as they are; one is a user turn with all up to the next."""
    keep_recent_user_turns_in_chained_tool_calls: int = Field(default=1, ge=0)
    """While the last message is a tool result: user turns with all that follows, where that is shorter."""


class CompactConfig(Strict):
    """Reduce results that hold rows, before the model first reads them: fields before rows."""

    fields: tuple[str, ...] | None = None
    """Fields that stay, in this order; without it the heaviest are left out first."""
    budget_tokens: int = Field(default=6_000, ge=1)
    """Tokens (bytes/4) that the rows of a result may have."""


class FoldConfig(Strict):
    """Put a handle in the place of each tool result that the model has read."""

    enabled: bool = True
    """Off: requests pass unchanged."""
    min_tokens: int = Field(default=2_000, ge=0)
    """Smaller results stay."""
    keep_turns: int = Field(default=3, ge=0)
    """A result stays for so many turns of the model after the one that read it."""
    compact: CompactConfig | None = None
    """Reduce rows before the model first reads them."""
    handle_over_tokens: int | None = Field(default=None, ge=1)
    """The model gets count, schema, digest and handle of a larger result instead of the result."""


class ToolsConfig(Strict):
    """Send the definitions of those tools only that the next step may need."""

    enabled: bool = True
    """Off: requests pass unchanged."""
    always_included: tuple[str, ...] = ALWAYS_INCLUDED
    """Tools that always stay, as far as the request has them."""
    use_prediction: bool = True
    """Keep what the search finds for the last messages; off: only what is included or used."""
    include_fallback: bool = True
    """Add `tool_search`, by which the model gets a tool that was left out."""
    limit: int = Field(default=12, ge=1, le=1000)
    """Tools predicted at most."""
    predictor: Literal["search", "llm", "callable"] = "search"
    """The gateway's search, the upstream model, or (in the library) a function."""
    max_retries: int = Field(default=2, ge=0, le=20)
    """Repeats of a request whose answer asks for tools by `tool_search`."""
    skip_prediction_on_tool_results: bool = True
    """While the last message is a tool result, keep the set of the request before."""


class CacheConfig(Strict):
    """Mark the end of the system text and of the tools for the provider's prompt cache (Anthropic)."""

    enabled: bool = True
    """Off: requests pass unchanged."""


class ContextConfig(Strict):
    """A section that is written is on, unless it says `enabled: false`; with none written only `cache` is on."""

    history: HistoryConfig | None = None
    """Trim the history."""
    fold: FoldConfig | None = None
    """Fold tool results that were read."""
    tools: ToolsConfig | None = None
    """Filter tool definitions."""
    cache: CacheConfig | None = None
    """Mark prompt caches."""

    @model_validator(mode="before")
    @classmethod
    def _written_empty(cls, given: Any) -> Any:
        """A section without keys (`cache:`) is written, and so on."""
        return {k: {} if v is None else v for k, v in given.items()} if isinstance(given, dict) else given
