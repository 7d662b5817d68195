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


async def test_one_call_to_the_shop_can_bring_hundreds_of_rows() -> None:
    async with Client(shop.server) as client:
        page = await value(client, "list_orders", status="delivered")
    assert len(page["orders"]) == 500 < page["total"]


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


async def test_products_are_found_by_all_words_and_by_stock() -> None:
    async with Client(shop.server) as client:
        lamps = await value(client, "search_products", query="LAMP", limit=200)
        in_stock = await value(client, "search_products", query="lamp", in_stock=True, limit=200)
    assert all("lamp" in p["name"].lower() for p in lamps["products"])
    assert [p for p in lamps["products"] if p["stock"]] == in_stock["products"]


async def test_a_changed_stock_is_seen_by_the_next_reader_of_this_connection_only() -> None:
    async with Client(shop.server) as one, Client(shop.server) as other:
        sku = (await value(one, "search_products", limit=1))["products"][0]["sku"]
        before = (await value(other, "get_product", sku=sku))["stock"]
        await value(one, "set_stock", sku=sku, stock=before + 5)
        assert (await value(one, "get_product", sku=sku))["stock"] == before + 5
        assert (await value(other, "get_product", sku=sku))["stock"] == before


async def test_an_unknown_sku_says_where_skus_come_from() -> None:
    async with Client(shop.server) as client:
        assert "search_products" in await error(client, "get_product", sku="NO-1")


async def test_wrong_arguments_are_named_one_by_one() -> None:
    async with Client(shop.server) as client:
        message = await error(client, "list_orders", limit=0, colour="red")
    assert "limit" in message
    assert "colour" in message


async def test_notes_live_in_a_private_folder_that_goes_with_the_connection() -> None:
    def folders() -> set[Path]:
        return set(Path(tempfile.gettempdir()).glob("gatemini-notes-*"))

    before = folders()
    async with Client(notes.server) as client:
        [folder] = folders() - before
        assert folder.stat().st_mode & 0o077 == 0
        await value(client, "write_note", name="plan", text="one\n")
        await value(client, "append_note", name="plan", text="two\n")
        assert (await value(client, "read_note", name="plan"))["text"] == "one\ntwo\n"
        assert {"name": "plan", "line": 2, "text": "two"} in (
            await value(client, "search_notes", query="TWO")
        )["matches"]
    assert not folder.exists()


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "", ".hidden", "x" * 65, "a\x00b"])
async def test_a_note_name_cannot_leave_the_folder(name: str) -> None:
    async with Client(notes.server) as client:
        assert "name" in await error(client, "write_note", name=name, text="x")


async def test_a_deleted_note_is_gone_and_the_error_lists_the_others() -> None:
    async with Client(notes.server) as client:
        result = await client.call_tool("delete_note", {"name": "welcome"})
        assert text_of(result) == "deleted welcome"
        assert "returns policy" in await error(client, "read_note", name="welcome")


async def test_a_time_is_converted_across_zones_and_days() -> None:
    async with Client(clock.server) as client:
        there = await value(
            client, "convert_time", time="2026-07-28T23:30", source="Europe/Berlin", target="Asia/Tokyo"
        )
    assert there["time"] == "2026-07-29T06:30:00+09:00"
    assert there["weekday"] == "Wednesday"
    assert there["is_business_hours"] is False


@pytest.mark.parametrize("zone", ["", "..", "../../etc/passwd", "/etc/passwd", "America", "a\x00b"])
async def test_what_is_no_zone_is_refused_by_name(zone: str) -> None:
    async with Client(clock.server) as client:
        assert "unknown time zone" in await error(client, "now", timezone=zone)


async def test_zones_are_listed_by_part_of_their_name() -> None:
    async with Client(clock.server) as client:
        zones = (await value(client, "list_time_zones", region="argentina/u"))["timezones"]
    assert zones == ["America/Argentina/Ushuaia"]


async def test_a_misspelt_zone_gets_the_close_ones() -> None:
    async with Client(clock.server) as client:
        assert "Europe/Berlin" in await error(client, "now", timezone="Europe/Berln")


@pytest.mark.parametrize(
    ("quantity", "source", "target", "expected"),
    [
        (1, "mi", "km", 1.609344),
        (100, "C", "F", 212),
        (-40, "F", "C", -40),
        (1, "GiB", "MiB", 1024),
        (2, "h", "min", 120),
    ],
)
async def test_units_convert_within_their_kind(
    quantity: float, source: str, target: str, expected: float
) -> None:
    async with Client(clock.server) as client:
        converted = await value(client, "convert_units", value=quantity, source=source, target=target)
    assert converted["value"] == pytest.approx(expected)


async def test_units_of_different_kinds_are_refused_with_the_known_units() -> None:
    async with Client(clock.server) as client:
        assert "temperature: C, F, K" in await error(
            client, "convert_units", value=1, source="km", target="kg"
        )


async def test_business_days_leave_out_the_weekend() -> None:
    async with Client(clock.server) as client:
        span = await value(client, "time_between", start="2026-07-24", end="2026-07-28")
    assert span == {"days": 4.0, "hours": 96.0, "business_days": 2}
