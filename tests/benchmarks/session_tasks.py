"""The ten tasks of the session that `context_session.py` measures, and the repository that one of them reads.

Each task has what a client without gateway calls, the chains of one with gateway, and how its answer is read.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMITS = 300

Call = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Worked:
    """The chain that computes the answer itself; it is used once the `fields` it names have been seen."""

    code: str
    fields: tuple[str, ...]
    read: Callable[[str], Any]


@dataclass(frozen=True)
class Task:
    """`calls` are what a client without gateway sends; `code` is the chain that returns the same result.

    `answer` reads the question's answer from the raw texts of `calls`, `shown` from what the pipeline shows last;
    `further` is the chain on the handle `H`, where that shows it.
    """

    question: str
    search: str
    calls: tuple[Call, ...]
    code: str
    answer: Callable[..., Any]
    shown: Callable[[str], Any]
    further: str | None = None
    intent: str | None = None
    heavy: bool = False
    worked: Worked | None = None
    chained: bool = False
    """The chain works out the answer for want of a single call that could."""


def tasks(repo: str) -> list[Task]:
    def value(text: str) -> Any:
        return json.loads(text)

    orders: Call = ("shop", "list_orders", {"limit": 5000})
    customers: Call = ("shop", "list_customers", {"limit": 1000})
    return [
        Task(
            "Which category sells best?", "sales report revenue by category",
            (("shop", "sales_report", {"group_by": "category"}),),
            'return await shop.sales_report({ group_by: "category" });',
            lambda t: value(t)["rows"][0]["key"], lambda t: value(t)["rows"][0]["key"],
        ),
        Task(
            "How many of the newest 5,000 orders are cancelled?", "list orders with status",
            (orders,),
            "return await shop.list_orders({ limit: 5000 });",
            lambda t: sum(o["status"] == "cancelled" for o in value(t)["orders"]),
            lambda t: value(t)["orders"]["digest"]["counts"]["status"]["cancelled"],
            heavy=True,
            worked=Worked(
                "const { orders } = await shop.list_orders({ limit: 5000 });\n"
                'return orders.filter((o) => o.status === "cancelled").length;',
                ("orders", "status"), int,
            ),
        ),
        Task(
            "What are the open orders worth?", "list open orders",
            (("shop", "list_orders", {"status": "open", "limit": 5000}),),
            'return await shop.list_orders({ status: "open", limit: 5000 });',
            lambda t: round(sum(o["total"] for o in value(t)["orders"]), 2),
            float,
            further="const { orders } = await results.load(H); return orders.reduce((s, o) => s + o.total, 0).toFixed(2);",
            heavy=True,
            worked=Worked(
                'const { orders } = await shop.list_orders({ status: "open", limit: 5000 });\n'
                "return orders.reduce((s, o) => s + o.total, 0).toFixed(2);",
                ("orders", "total"), float,
            ),
        ),
        Task(
            "How many gold customers are there?", "list customers by tier",
            (customers,),
            "return await shop.list_customers({ limit: 1000 });",
            lambda t: sum(c["tier"] == "gold" for c in value(t)["customers"]),
            lambda t: value(t)["customers"]["digest"]["counts"]["tier"]["gold"],
            heavy=True,
            worked=Worked(
                "const { customers } = await shop.list_customers({ limit: 1000 });\n"
                'return customers.filter((c) => c.tier === "gold").length;',
                ("customers", "tier"), int,
            ),
        ),
        Task(
            "Which product brought most?", "revenue per product",
            (("shop", "sales_report", {"group_by": "product", "limit": 500}),),
            'return await shop.sales_report({ group_by: "product", limit: 500 });',
            lambda t: value(t)["rows"][0]["key"],
            lambda t: t.splitlines()[2].split(",")[0],
            heavy=True,
            worked=Worked(
                'const { rows } = await shop.sales_report({ group_by: "product", limit: 500 });\n'
                "return rows.sort((a, b) => b.revenue - a.revenue)[0];",
                ("rows", "revenue"), lambda t: value(t)["key"],
            ),
        ),
        Task(
            "Which commit mended the parser?", "git commit history",
            (("git", "git_log", {"repo_path": repo, "max_count": COMMITS}),),
            f"return await git.git_log({{ repo_path: {json.dumps(repo)}, max_count: {COMMITS} }});",
            _parser_commit, _parser_commit,
            intent="parser mended", heavy=True,
        ),
        Task(
            "How many European time zones are there?", "list time zones of a region",
            (("clock", "list_time_zones", {"region": ""}),),
            'return await clock.list_time_zones({ region: "" });',
            lambda t: sum(zone.startswith("Europe/") for zone in value(t)["timezones"]),
            int,
            further='const all = await results.load(H); return all.timezones.filter((z) => z.startsWith("Europe/")).length;',
            heavy=True,
            worked=Worked(
                'const { timezones } = await clock.list_time_zones({ region: "" });\n'
                'return timezones.filter((z) => z.startsWith("Europe/")).length;',
                ("timezones",), int,
            ),
        ),
        Task(
            "When is 16:30 in Tokyo in Rome?", "convert time between time zones",
            (("time", "convert_time", {"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Europe/Rome"}),),
            'return await time.convert_time({ source_timezone: "Asia/Tokyo", time: "16:30", target_timezone: "Europe/Rome" });',
            _rome, _rome,
        ),
        Task(
            "Keep a note of it.", "write a note",
            (("notes", "write_note", {"name": "session", "text": "16:30 in Tokyo"}),),
            'return await notes.write_note({ name: "session", text: "16:30 in Tokyo" });',
            lambda t: value(t)["name"], lambda t: value(t)["name"],
        ),
        Task(
            "Which country orders most often?", "list customers and their orders",
            (orders, customers),
            "const [{ orders }, { customers }] = await Promise.all([shop.list_orders({ limit: 5000 }), shop.list_customers({ limit: 1000 })]);\n"
            "const of = new Map(customers.map((c) => [c.id, c.country]));\n"
            "const n: Record<string, number> = {};\n"
            'for (const o of orders) { const c = of.get(o.customer_id) ?? "?"; n[c] = (n[c] ?? 0) + 1; }\n'
            "return Object.entries(n).sort((a, b) => b[1] - a[1]).slice(0, 3);",
            _first_country, lambda t: value(t)[0][0],
            chained=True,
        ),
    ]  # fmt: skip


def _first_country(orders: str, customers: str) -> str:
    countries = {c["id"]: c["country"] for c in json.loads(customers)["customers"]}
    counted: Counter[str] = Counter(countries[order["customer_id"]] for order in json.loads(orders)["orders"])
    return counted.most_common(1)[0][0]


def _parser_commit(text: str) -> str | None:
    found = re.search(r"Commit: (\w{40})(?:(?!Commit: ).)*parser mended", text, re.DOTALL)
    return found[1] if found else None


def _rome(text: str) -> str | None:
    found = re.search(r"Europe/Rome.*?T(\d\d:\d\d)", text, re.DOTALL)
    return found[1] if found else None


def make_repository(folder: Path) -> str:
    """A repository of `COMMITS` commits, the same every time."""
    subjects = [
        "Report: totals by month",
        "Queue: depth is bounded",
        "Docs: how to restart",
        "Cache: entries expire",
    ]
    lines = []
    for n in range(COMMITS):
        subject = "Import: parser mended for empty rows" if n == 137 else f"{subjects[n % 4]} ({n})"
        body = f"{subject}\n"
        lines.append(
            f"commit refs/heads/main\ncommitter Ada <ada@mail.example> {1_760_000_000 + n * 3600} +0000\n"
            f"data {len(body)}\n{body}M 100644 inline notes.txt\ndata {len(str(n))}\n{n}\n"
        )
    for command, given in (
        (["init", "-q", "-b", "main"], ""),
        (["fast-import", "--quiet"], "\n".join(lines)),
    ):
        subprocess.run(["git", "-C", str(folder), *command], input=given, text=True, check=True, timeout=60)
    return str(folder)
