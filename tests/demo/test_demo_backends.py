"""The embedded demo backends, each through the SDK's client in-process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from gatemini.demo import backends, clock, notes, shop

pytestmark = pytest.mark.anyio


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def value(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def error(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


def test_the_demo_configuration_names_three_backends_that_run_in_process() -> None:
    assert [(b.name, b.transport, b.module) for b in backends()] == [
        ("shop", "python", "gatemini.demo.shop:server"),
        ("notes", "python", "gatemini.demo.notes:server"),
        ("clock", "python", "gatemini.demo.clock:server"),
    ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("server", [shop.server, notes.server, clock.server], ids=["shop", "notes", "clock"])
async def test_every_tool_has_a_schema_and_annotations(server: Any, mode: str) -> None:
    async with Client(server, mode=mode) as client:
        for tool in (await client.list_tools()).tools:
            assert tool.description
            assert tool.input_schema["type"] == "object"
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is not None
            assert "title" not in tool.input_schema


async def test_the_shop_has_the_same_thousands_of_rows_every_time() -> None:
    seen = []
    for _ in range(2):
        async with Client(shop.server) as client:
            page = await value(client, "list_orders", limit=5000)
            seen.append((page["total"], page["orders"][0]))
    assert seen[0] == seen[1]
    assert seen[0][0] == 3000


async def test_the_sales_report_adds_up_to_the_orders_it_is_made_of() -> None:
    async with Client(shop.server) as client:
        by_month = (await value(client, "sales_report", group_by="month", limit=500))["rows"]
        orders = (await value(client, "list_orders", limit=5000))["orders"]
    counted = sum(o["total"] for o in orders if o["status"] not in ("cancelled", "returned"))
    assert sum(row["revenue"] for row in by_month) == pytest.approx(counted, abs=1)


async def test_an_order_names_its_lines_and_its_total_is_their_sum() -> None:
    async with Client(shop.server) as client:
        order = await value(client, "get_order", order_id=17)
    assert sum(line["quantity"] * line["price"] for line in order["lines"]) == pytest.approx(
        order["total"], abs=0.01
    )


async def test_a_changed_stock_is_seen_by_the_next_reader_of_this_connection_only() -> None:
    async with Client(shop.server) as one, Client(shop.server) as other:
        sku = (await value(one, "search_products", limit=1))["products"][0]["sku"]
        before = (await value(other, "get_product", sku=sku))["stock"]
        await value(one, "set_stock", sku=sku, stock=before + 5)
        assert (await value(one, "get_product", sku=sku))["stock"] == before + 5
        assert (await value(other, "get_product", sku=sku))["stock"] == before


async def test_notes_are_those_of_one_connection_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with Client(notes.server) as client, Client(notes.server) as other:
        await value(client, "write_note", name="plan", text="one\n")
        await value(client, "append_note", name="plan", text="two\n")
        assert text_of(await client.call_tool("delete_note", {"name": "welcome"})) == "deleted welcome"
        assert "returns policy" in await error(client, "read_note", name="welcome")
        assert (await value(client, "read_note", name="plan"))["text"] == "one\ntwo\n"
        assert {"name": "plan", "line": 2, "text": "two"} in (
            await value(client, "search_notes", query="TWO")
        )["matches"]
        assert "no note 'plan'" in await error(other, "read_note", name="plan")
        assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a folder of the test's own


ANSWERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "convert_time",
        {"time": "2026-07-28T23:30", "source": "Europe/Berlin", "target": "Asia/Tokyo"},
        {"time": "2026-07-29T06:30:00+09:00", "weekday": "Wednesday", "is_business_hours": False},
    ),
    ("list_time_zones", {"region": "argentina/u"}, {"timezones": ["America/Argentina/Ushuaia"]}),
    (
        "time_between",
        {"start": "2026-07-24", "end": "2026-07-28"},
        {"days": 4.0, "hours": 96.0, "business_days": 2},
    ),
    ("convert_units", {"value": 1, "source": "mi", "target": "km"}, {"value": pytest.approx(1.609344)}),
    ("convert_units", {"value": 100, "source": "C", "target": "F"}, {"value": pytest.approx(212)}),
    ("convert_units", {"value": -40, "source": "F", "target": "C"}, {"value": pytest.approx(-40)}),
    ("convert_units", {"value": 1, "source": "GiB", "target": "MiB"}, {"value": 1024}),
]


async def test_the_clock_knows_zones_spans_and_units(subtests: pytest.Subtests) -> None:
    async with Client(clock.server) as client:
        for tool, arguments, expected in ANSWERS:
            with subtests.test(f"{tool} {arguments}"):
                answer = await value(client, tool, **arguments)
                assert {key: answer[key] for key in expected} == expected


REFUSALS: list[tuple[Any, str, dict[str, Any], list[str]]] = [
    (shop, "get_product", {"sku": "NO-1"}, ["search_products"]),
    (shop, "list_orders", {"limit": 0, "colour": "red"}, ["limit", "colour"]),
    (clock, "now", {"timezone": "Europe/Berln"}, ["Europe/Berlin"]),
    (clock, "convert_units", {"value": 1, "source": "km", "target": "kg"}, ["temperature: C, F, K"]),
    *(
        (clock, "now", {"timezone": zone}, ["unknown time zone"])
        for zone in ("", "..", "../../etc/passwd", "America", "a\x00b")
    ),
    *(
        (notes, "write_note", {"name": name, "text": "x"}, ["name"])
        for name in ("../up", "/etc/passwd", "a/b", "", ".hidden", "x" * 65, "a\x00b")
    ),
    (notes, "read_note", {"name": "no such note"}, ["returns policy"]),
]


async def test_a_refusal_says_what_would_be_right(subtests: pytest.Subtests) -> None:
    for module, tool, arguments, said in REFUSALS:
        with subtests.test(f"{tool} {arguments}"):
            async with Client(module.server) as client:
                message = await error(client, tool, **arguments)
                assert all(part in message for part in said), message
