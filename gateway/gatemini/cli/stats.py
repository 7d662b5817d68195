"""`gatemini stats` and `gatemini recent`: what gateways counted, as bars and rows.

Both read the accounts that gateways leave and start nothing; only where no gateway has seen a tool yet, `stats` starts
the backends to measure their tools.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.bars import bar, life, moment
from gatemini.cli.open_gateway import settle, with_app
from gatemini.cli.proxy_stats import read_proxies, show_proxy
from gatemini.config.documents.find import config_directory, find_config
from gatemini.text.escape import visible
from gatemini.text.shorten import counted
from gatemini.tracker import BYTES_PER_TOKEN, RECENT_CALLS

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.llm_proxy.totals import ProxyAccount
    from gatemini.upkeep.usage_files import Account

_TOP = 20
"""Tools listed by use."""
_NAME_CELLS = 48


def stats(*, limit: int, config: Path | None, as_json: bool) -> None:
    """What each answer put into the context, and what loading every schema would have cost."""
    proxies = read_proxies()
    accounts = _accounts(config)
    if proxies and not accounts and find_config(config, os.environ, config_directory()) is None:
        # Only the proxy is in use: the demo backends need not start for its figures.
        if as_json:
            shell.emit({"llm_proxy": [_proxy_row(proxy) for proxy in proxies]})
        else:
            show_proxy(proxies[0], limit)
        return
    seen = next((account for account in accounts if any(row["tools"] for row in account.backends)), None)
    if seen is not None:  # a gateway may end before it has seen any: its answers, beside the tools of another
        uses = sum((Counter(account.usage) for account in accounts), Counter[str]())
        answer = _catalog(seen.backends, uses)
    else:
        answer = with_app(config, _from_gateway)
    answer["session"] = accounts[0].stats if accounts else None
    answer["gateways"] = [_gateway_row(account) for account in accounts]
    answer["llm_proxy"] = [_proxy_row(proxy) for proxy in proxies]
    if as_json:
        shell.emit(answer)
        return
    if accounts:
        _show_session(accounts[0], answer["session"], limit)
    else:
        shell.note("no gateway with this configuration has answered a client yet")
    _show_catalog(answer)
    if proxies:
        show_proxy(proxies[0], limit)


def recent(*, limit: int, config: Path | None, as_json: bool) -> None:
    """The last calls to backends, over all gateways with this configuration."""
    rows = [{**row, "gateway": account.pid} for account in _accounts(config) for row in account.recent]
    rows = sorted(rows, key=lambda row: str(row["when"]), reverse=True)[:limit]
    if as_json:
        shell.emit({"recent": rows})
        return
    if not rows:
        shell.note("no gateway with this configuration has called a backend yet")
        return
    shell.rows(
        ("when", "tool", "ms", "", "KB"),
        (
            (
                moment(str(row["when"])),
                _name(row["tool"]),
                f"{row['ms']:.1f}",
                "✓" if row["ok"] else "✗",
                _kilobytes(row["bytes"]),
            )
            for row in rows
        ),
        right=(2, 4),
    )


def _accounts(config: Path | None) -> list[Account]:
    """Accounts of gateways with this configuration, newest first, those that had a client before the others."""
    from gatemini.cache import default_path
    from gatemini.config.load import load_config
    from gatemini.upkeep.housekeeping import account_folder, account_name
    from gatemini.upkeep.usage_files import read_accounts

    loaded = load_config(config, environ=os.environ)
    folder = account_folder(loaded.config.cache_path or default_path())
    source = account_name(loaded.source)
    found = [account for account in read_accounts(folder) if account.config == source]
    return sorted(found, key=lambda account: account.client is None)


def _proxy_row(proxy: ProxyAccount) -> dict[str, Any]:
    return {**proxy.model_dump(), "running": proxy.running}


def _gateway_row(account: Account) -> dict[str, Any]:
    totals = account.stats
    return {
        "pid": account.pid,
        "client": account.client,
        "running": account.running,
        "started": totals["started"],
        "answers": totals["total_answers"],
        "bytes_returned": totals["total_bytes_returned"],
        "calls": sum(row["calls"] for row in totals["backends"].values()),
    }


async def _from_gateway(gateway: App) -> dict[str, Any]:
    await settle(gateway)
    return _catalog(gateway.catalog.backend_sizes(), {})


def _catalog(backends: Sequence[dict[str, Any]], usage: Mapping[str, int]) -> dict[str, Any]:
    """What the backends of a configuration take, and the uses of their tools by the gateways that have accounts."""
    total = sum(row["catalog_bytes"] for row in backends)
    names = tuple(f"{row['name']}." for row in backends)  # the configuration may have had others
    ours = {tool: count for tool, count in usage.items() if tool.startswith(names)}
    return {
        "tools": sum(row["tools"] for row in backends),
        "catalog_bytes": total,
        "catalog_tokens_estimate": total // BYTES_PER_TOKEN,
        "backends": list(backends),
        "usage": dict(sorted(ours.items(), key=lambda pair: (-pair[1], pair[0]))),
    }


# ------------------------------------------------------------------------------------------------ showing


def _show_session(account: Account, session: dict[str, Any], limit: int) -> None:
    client = visible(account.client or "the terminal")
    shell.say(f"gateway {account.pid} for {client}: {life(account, str(session['started']))}")
    returned, processed = session["total_bytes_returned"], session["total_bytes_processed"]
    shell.say(
        f"{counted(session['total_answers'], 'answer')} put {_kilobytes(returned)} KB into the context "
        f"(≈ {returned // BYTES_PER_TOKEN:,} tokens, bytes/4) of {_kilobytes(processed)} KB processed: "
        f"{session['reduction_pct']:.1f} % less"
    )
    _show_staircase(session["per_call"], limit)


def _show_staircase(answers: Sequence[dict[str, Any]], limit: int) -> None:
    """One bar an answer: light for what was in its session's context before, solid for what it added."""
    if not answers:
        return
    ours = [row for row in answers if row["session"] == answers[-1]["session"]]
    shown = ours[-limit:]
    full = max(row["context"] for row in shown)
    shell.rows(
        ("", "answer of", "KB", "context", ""),
        (
            (
                str(row["n"]),
                _name(row["tool"]),
                _kilobytes(row["returned"]),
                _kilobytes(row["context"]),
                bar(row["context"] - row["returned"], row["returned"], full),
            )
            for row in shown
        ),
        right=(0, 2, 3),
    )


def _show_catalog(answer: dict[str, Any]) -> None:
    shell.rows(
        ("backend", "tools", "full schemas"),
        (
            (visible(row["name"]), str(row["tools"]), f"{_kilobytes(row['catalog_bytes'])} KB")
            for row in answer["backends"]
        ),
        right=(1, 2),
    )
    tokens = answer["catalog_tokens_estimate"]
    shell.say(f"{counted(answer['tools'], 'tool')}; all schemas together ≈ {tokens:,} tokens (bytes/4)")
    for name, count in list(answer["usage"].items())[:_TOP]:
        shell.say(f"{count:>6}×  {visible(name)}")


def _name(name: Any) -> str:
    shown = visible(str(name))
    return shown if len(shown) <= _NAME_CELLS else shown[: _NAME_CELLS - 1] + "…"


def _kilobytes(count: float) -> str:
    return f"{count / 1024:,.1f}"


COMMANDS = (
    shell.Command("stats", stats, [shell.limit(200, 30, "answers shown as bars")]),
    shell.Command("recent", recent, [shell.limit(RECENT_CALLS, 50, "calls, newest first")]),
)
