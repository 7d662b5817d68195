"""The staircase of a conversation's input tokens as SVG."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 360
LEFT, TOP, BOTTOM, RIGHT = 70, 40, 40, 150
_COLOURS = ("#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e")
_GRID_LINES = 4


def write_svg(report: dict[str, Any]) -> str:
    """Draw the report of `measure_turns`: one staircase for the conversation as it is, one for each projection."""
    lines = {"as it is": report["turns"], **{name: made["turns"] for name, made in report["with"].items()}}
    full = max(1, *(max(turns, default=0) for turns in lines.values()))
    count = max(1, len(report["turns"]))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">Input tokens of each turn</text>',
    ]
    for step in range(_GRID_LINES + 1):
        y = TOP + high - high * step / _GRID_LINES
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + wide}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{full * step // _GRID_LINES:,}</text>'
        )
    for number, ((name, turns), colour) in enumerate(zip(lines.items(), _COLOURS, strict=False)):
        points = [
            f"{LEFT + wide * (turn + side) / count:.1f},{TOP + high - high * tokens / full:.1f}"
            for turn, tokens in enumerate(turns)
            for side in (0, 1)
        ]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(points)}"/>'
        )
        y = TOP + 16 * number
        text = escape(f"{name}: {sum(turns):,}")
        parts.append(f'<text x="{LEFT + wide + 10}" y="{y + 10}" fill="{colour}">{text}</text>')
    parts.append(
        f'<text x="{LEFT + wide / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">turn 1 to {count}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])
