"""The live view of `gatemini top` in terminals of every size."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from gatemini.cli.top import sample, view


def status(clients: int, backends: int) -> dict[str, Any]:
    """The status of a daemon with so many clients and backends; every second backend has failed."""
    return {
        "version": "0.1.0",
        "config": "/home/someone/.config/gatemini/config.yaml",
        "pid": 1234567,
        "uptime_seconds": 7505,
        "rss_bytes": 103 << 20,
        "trouble": [],
        "problems": [],
        "load": {"calls": 1234567, "failed": 3, "p95_ms": 1234.0, "answers": 4567, "estimated_tokens_saved": 89},
        "sessions": [
            {
                "client": f"a client with a rather long name {number}",
                "cwd": "/home/someone/projects/of-someone",
                "pid": 1234567,
                "requests": 98765,
                "in_flight": number,
            }
            for number in range(clients)
        ],
        "backends": [
            {
                "name": f"a-backend-with-a-long-name-{number}",
                "state": "stopped" if number % 2 else "healthy",
                "error": "command not found" if number % 2 else None,
                "calls": 54321,
                "calls_open": 12,
                "p50_ms": 12.0,
                "p95_ms": 4321.0,
                "rss_bytes": 678 << 20,
                "users": 8,
                "restarts": 7,
            }
            for number in range(backends)
        ],
    }  # fmt: skip


def drawn(found: dict[str, Any], width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(width=width, height=height, file=out, color_system=None, highlight=False, emoji=False)
    console.print(view(sample(found, None, 0.0), "", width, height))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_number_is_cut_in_a_narrow_terminal(width: int) -> None:
    lines = drawn(status(3, 4), width, 24)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for number in ("98765", "54321", "4321"):
        assert number in text, text
    assert ("678" in text) == (width >= 60)


@pytest.mark.parametrize(("clients", "backends"), [(2, 2), (100, 3), (3, 100), (100, 100), (0, 0)])
@pytest.mark.parametrize("height", [12, 24, 50])
def test_what_does_not_fit_is_counted_and_both_tables_stay_in_sight(
    clients: int, backends: int, height: int
) -> None:
    lines = drawn(status(clients, backends), 100, height)
    text = "\n".join(lines)
    assert len(lines) <= height
    assert "client " in text
    assert "backend " in text
    named = sum(line.startswith(("a client", "a-backend")) for line in lines)
    rest = [int(line.split()[2]) for line in lines if line.startswith("… and ")]
    assert named + sum(rest) == clients + backends


def test_busy_clients_and_failed_backends_come_first_and_say_why() -> None:
    text = "\n".join(drawn(status(100, 100), 100, 24))
    assert "a client with a rather long name 99" in text
    assert "a-backend-with-a-long-name-1 " in text
    assert "! a-backend-with-a-long-name-1: command not found" in text


def test_names_of_clients_cannot_move_the_cursor() -> None:
    found = status(1, 1)
    found["sessions"][0]["client"] = "\x1b[2Jevil\nname"
    lines = drawn(found, 100, 24)
    assert any(line.startswith("\\u001b[2Jevil\\u000aname") for line in lines), lines
