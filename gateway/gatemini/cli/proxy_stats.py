"""The savings of `gatemini llm-proxy` as text, for `gatemini stats`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.bars import bar_of_savings, life
from gatemini.text.escape import visible
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.llm_proxy.totals import ProxyAccount

ANSWER_SECONDS = 2.0
"""How long a daemon may take to list its proxies."""


def read_proxies() -> list[ProxyAccount]:
    """The totals of all proxies, of this user's daemons and of their own files, the latest activity first."""
    from gatemini.llm_proxy.totals import ProxyAccount, read_totals

    given = read_totals()
    for account in _of_daemons():
        with suppress(ValueError):  # a proxy of another version
            given.append(ProxyAccount.model_validate(account))
    oldest_first = sorted(given, key=lambda proxy: (proxy.ended, proxy.last))
    found = {(each.pid, each.process_started): each for each in oldest_first}
    return sorted(found.values(), key=lambda proxy: proxy.last, reverse=True)


def _of_daemons() -> Iterator[dict[str, Any]]:
    from gatemini.daemon.client import Unanswered, all_places, ask
    from gatemini.daemon.llm_proxies import COMMAND

    for place in all_places(os.environ) if sys.platform != "win32" else ():
        with suppress(Unanswered):
            yield from (ask(place, COMMAND, seconds=ANSWER_SECONDS, do="list") or {}).get("proxies", ())


def show_proxy(proxy: ProxyAccount, limit: int) -> None:
    """Totals, what each step saved, the tool filter's figures, and one bar a request."""
    shell.say(f"llm-proxy {proxy.pid} for {visible(proxy.upstream)}: {life(proxy, proxy.started)}")
    before, after = proxy.input_tokens_before, proxy.input_tokens
    shell.say(
        f"{counted(proxy.requests, 'request')}: {after:,} input tokens sent instead of {before:,} (bytes/4)"
        + (f", {before / after:.1f} times fewer" if 0 < after < before else "")
    )
    if proxy.passed:
        shell.say(f"{counted(proxy.passed, 'more request')} passed as they were")
    for step, counts in proxy.steps.items():
        if any(counts.values()):
            shell.say(
                f"  {step:<7}" + ", ".join(f"{count:,} {_words(name)}" for name, count in counts.items())
            )
    _show_tools(proxy.tools)
    _show_requests(proxy.recent[-limit:])


def _words(name: str) -> str:
    return {"tokens": "tokens less", "same_prefix": "requests with the prefix of the last"}.get(name, name)


def _show_tools(tools: dict[str, Any]) -> None:
    if not tools["requests"]:
        return
    rates = [f"{name} {tools[name]:.0%}" for name in ("precision", "recall") if tools[name] is not None]
    shell.say(
        f"  prediction of tools: {tools['predicted']:,} predicted, {tools['used']:,} used"
        + "".join(f", {rate}" for rate in rates)
        + f"; {counted(tools['prediction_failures'], 'failure')}, {tools['fallback_rate']:.0%} of requests "
        "asked for more tools"
    )
    if tools["warning"]:
        shell.note(
            "over 10 % of requests asked for a tool that was left out: raise context.tools.limit, or name the tool in "
            "context.tools.always_included"
        )


def _show_requests(rows: list[dict[str, Any]]) -> None:
    """One bar a request: solid for what was sent, light for what was saved."""
    if not rows:
        return
    full = max(max(row["before"], row["input"]) for row in rows)
    shell.rows(
        ("", "format", "before", "sent", ""),
        (
            (
                str(number),
                row["format"],
                f"{row['before']:,}",
                f"{row['input']:,}",
                bar_of_savings(row["input"], row["before"], full),
            )
            for number, row in enumerate(rows, 1)
        ),
        right=(0, 2, 3),
    )
