"""Search as `gatemini search` shows it: names with scores, by the index of a running gateway."""

from __future__ import annotations

from typing import Any

import anyio

from gatemini.app import App
from gatemini.policy.principal import TERMINAL, local
from gatemini.text.shorten import first_sentence

SETTLE_SECONDS = 60.0
"""The longest a search waits for backends that are still starting."""
MODEL_SECONDS = 60.0
"""The longest it waits for the vectors of a configured model."""


async def terminal_search(
    app: App, *, words: str, limit: int, tag: str | None, explain: bool
) -> dict[str, Any]:
    """The best tools with scores; `explain` adds the share of each signal."""
    with anyio.move_on_after(MODEL_SECONDS):
        await app.embedding.ready()
    meaning = await app.embedding.meaning(words)
    shows = app.chain.listing(local("cli", TERMINAL)).shows
    found = app.index.search(
        words, limit=limit, tag=tag, usage=app.tracker.usage, meaning=meaning, shows=shows
    )
    results = [
        {
            "name": hit.tool.qualified,
            "score": round(float(hit.score), 4),
            "description": first_sentence(hit.tool.description),
            **({"why": dict(hit.why)} if explain else {}),
        }
        for hit in found.hits
    ]
    answer: dict[str, Any] = {"results": results, "total": found.total, "tier": found.tier}
    if found.did_you_mean:
        answer["did_you_mean"] = found.did_you_mean
    if missing := (await app.readiness.unlisted(0)).note():
        answer["note"] = missing
    return answer
