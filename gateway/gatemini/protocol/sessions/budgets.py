"""Limits that each client applies to texts, so that the gateway shortens them itself, with a handle to the rest.

The table is keyed by the name a client announces. Each limit is in the unit of that client: characters, bytes, or
tokens, estimated as bytes / 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gatemini.text.size_limit import SizeLimit

BYTES_PER_TOKEN = 4
RESULT_TOKENS = 25_000
"""Default for unknown clients; the documented limit of a widespread client."""
ERROR_CHARS = 10_000


def _tokens(count: int) -> SizeLimit:
    return SizeLimit(bytes=count * BYTES_PER_TOKEN - 1)


@dataclass(frozen=True, slots=True)
class Budget:
    """The longest texts of each kind that a client takes."""

    result: SizeLimit
    """Limit of all text of a result together."""
    error: SizeLimit


_ERROR = SizeLimit(chars=ERROR_CHARS - 1)
_EIGHT_KB = SizeLimit(bytes=8 * 1024 - 1)
UNKNOWN = Budget(_tokens(RESULT_TOKENS), _ERROR)

INLINE_META = "anthropic/maxResultSizeChars"
"""Key of a tool's `_meta` that raises Claude Code's limit for its results from 50,000 characters to the given number;
beyond it a result is saved to a file (code.claude.com/docs/en/mcp). The gateway's tools declare their own limit there.
"""

# Keyed by the beginning of the announced name, in lower case. A client is listed only where its limit is publicly
# documented, with the source; any other gets the default. All of these clients let their users change the limit,
# which the server does not learn.
_BUDGETS: dict[str, Budget] = {
    # 25,000 tokens (MAX_MCP_OUTPUT_TOKENS), error text cut at about 11,000 characters: code.claude.com/docs/en/mcp.
    # Descriptions and instructions are cut at 2,048 characters: github.com/anthropics/claude-code/issues/81268.
    "claude-code": UNKNOWN,
    # 10,000 tokens: the `truncation_policy` of its models, github.com/openai/codex/pull/20260; the middle is cut.
    "codex-mcp-client": Budget(_tokens(10_000), _ERROR),
    # 40,000 characters (`tools.truncateToolOutputThreshold`): github.com/google-gemini/gemini-cli/pull/19365.
    "gemini-cli-mcp-client": Budget(SizeLimit(chars=39_999), _ERROR),
    # 25,000 characters (the same setting): github.com/QwenLM/qwen-code/pull/2446. The first is its older name.
    "qwen-code-mcp-client": Budget(SizeLimit(chars=24_999), _ERROR),
    "qwen-cli-mcp-client": Budget(SizeLimit(chars=24_999), _ERROR),
    # 50 KB or 2,000 lines (`tool_output.max_bytes`): github.com/anomalyco/opencode/pull/23770.
    "opencode": Budget(SizeLimit(bytes=50 * 1024 - 1), _ERROR),
    # 200,000 characters (`GOOSE_MAX_TOOL_RESPONSE_SIZE`), beyond which the model is given a file's name; it announces
    # `goose-cli` or `goose-desktop`: github.com/aaif-goose/goose/pull/9256.
    "goose": Budget(SizeLimit(chars=199_999), _ERROR),
    # 8 KB (`chat.agent.largeToolResultsToDisk.thresholdBytes`), beyond which the model is given a file's name; the
    # same for Copilot's agent: github.com/microsoft/vscode/pull/329276.
    "visual studio code": Budget(_EIGHT_KB, _EIGHT_KB),
    "github-copilot-developer": Budget(_EIGHT_KB, _EIGHT_KB),
    "gatemini": Budget(SizeLimit(chars=10_000_000), SizeLimit(chars=1_000_000)),
}


@lru_cache(maxsize=64)
def budget_for(client: str | None) -> Budget:
    """Return the budget of the client that announced itself as `client`."""
    name = (client or "").strip().lower()
    for known, budget in _BUDGETS.items():
        if name == known or name.startswith((known + "-", known + " ", known + "/")):
            return budget
    return UNKNOWN
