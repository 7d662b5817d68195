"""Demo backend `shop`: customers, products and orders of a small furniture shop, in SQLite.

Queries run on the event loop: each takes a few milliseconds at most on an in-memory database of this size.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import date
from typing import Annotated, Literal

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.stock import open_database
from gatemini.demo.toolbox import SETS, Refused, Toolbox

Status = Literal["open", "shipped", "delivered", "cancelled", "returned"]


@asynccontextmanager
async def _database(_server: Server[sqlite3.Connection]) -> AsyncIterator[sqlite3.Connection]:
    with closing(open_database()) as database:
        yield database


toolbox: Toolbox[sqlite3.Connection] = Toolbox(
    "shop", "A furniture shop's customers, products and orders of 2026.", _database
)


class Product(BaseModel):
    sku: str
    name: str
    category: str
    price: float = Field(description="EUR")
    stock: int
    weight_kg: float


class Customer(BaseModel):
    id: int
    name: str
    email: str
    city: str
    country: str
    timezone: str
    tier: str


class Order(BaseModel):
    id: int
    customer_id: int
    day: str
    status: Status
    total: float = Field(description="EUR")


class ProductPage(BaseModel):
    products: list[Product]
    total: int = Field(description="Matches in all, also those beyond the limit")


@toolbox.tool()
def search_products(
    database: sqlite3.Connection,
    query: Annotated[str, Field(description="Words of the name, such as lamp or oak desk")] = "",
    category: Literal["lighting", "furniture", "kitchen", "office"] | None = None,
    in_stock: Annotated[bool, Field(description="Only what can be sent today")] = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
) -> ProductPage:
    """Search the product catalogue by words, category and availability."""
    rows = database.execute(
        "SELECT * FROM products WHERE (:category IS NULL OR category = :category) "
        "AND (:in_stock = 0 OR stock > 0) ORDER BY name",
        {"category": category, "in_stock": in_stock},
    )
    words = query.casefold().split()
    found = [Product(**row) for row in rows if all(word in row["name"].casefold() for word in words)]
    return ProductPage(products=found[:limit], total=len(found))


@toolbox.tool()
def get_product(
    database: sqlite3.Connection,
    sku: Annotated[str, Field(description="Stock keeping unit, such as LIG-0012")],
) -> Product:
    """Get one product by its SKU."""
    return _product(database, sku)


class CustomerPage(BaseModel):
    customers: list[Customer]
    total: int


@toolbox.tool()
def list_customers(
    database: sqlite3.Connection,
    country: str | None = None,
    tier: Literal["standard", "silver", "gold"] | None = None,
    limit: Annotated[int, Field(ge=1, le=1000)] = 50,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> CustomerPage:
    """List customers, filtered by country and tier."""
    found = database.execute(
        "SELECT * FROM customers WHERE (:country IS NULL OR country = :country) AND (:tier IS NULL OR tier = :tier) "
        "ORDER BY id",
        {"country": country, "tier": tier},
    ).fetchall()
    page = found[offset : offset + limit]
    return CustomerPage(customers=[Customer(**row) for row in page], total=len(found))


class CustomerSummary(Customer):
    orders: int
    revenue: float = Field(description="EUR, cancelled and returned orders left out")


@toolbox.tool()
def get_customer(database: sqlite3.Connection, customer_id: int) -> CustomerSummary:
    """Get one customer with the number of orders and the revenue."""
    row = database.execute(
        "SELECT c.*, count(o.id) AS orders, "
        "round(total(CASE WHEN o.status IN ('cancelled', 'returned') THEN 0 ELSE o.total END), 2) AS revenue "
        "FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE c.id = ? GROUP BY c.id",
        (customer_id,),
    ).fetchone()
    if row is None:
        raise Refused(f"there is no customer {customer_id}; list_customers shows them")
    return CustomerSummary(**row)


class OrderPage(BaseModel):
    orders: list[Order]
    total: int


@toolbox.tool()
def list_orders(
    database: sqlite3.Connection,
    customer_id: int | None = None,
    status: Status | None = None,
    since: Annotated[date | None, Field(description="First day, 2026-01-01 to 2026-10-27")] = None,
    until: Annotated[date | None, Field(description="Last day")] = None,
    limit: Annotated[int, Field(ge=1, le=5000)] = 500,
) -> OrderPage:
    """List orders, newest first, by customer, status and day. Often hundreds of rows."""
    found = database.execute(
        "SELECT * FROM orders WHERE (:customer_id IS NULL OR customer_id = :customer_id) "
        "AND (:status IS NULL OR status = :status) "
        "AND (:since IS NULL OR day >= :since) AND (:until IS NULL OR day <= :until) ORDER BY day DESC, id DESC",
        {"customer_id": customer_id, "status": status, "since": _day(since), "until": _day(until)},
    ).fetchall()
    return OrderPage(orders=[Order(**row) for row in found[:limit]], total=len(found))


class OrderLine(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class OrderDetail(Order):
    lines: list[OrderLine]


@toolbox.tool()
def get_order(database: sqlite3.Connection, order_id: int) -> OrderDetail:
    """Get one order with its lines."""
    row = database.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no order {order_id}")
    lines = database.execute(
        "SELECT l.sku, p.name, l.quantity, l.price FROM lines l JOIN products p USING (sku) WHERE l.order_id = ?",
        (order_id,),
    )
    return OrderDetail(**row, lines=[OrderLine(**line) for line in lines])


class ReportRow(BaseModel):
    key: str = Field(description="Category, country, YYYY-MM, SKU or customer id")
    orders: int
    units: int
    revenue: float


class ReportRows(BaseModel):
    rows: list[ReportRow] = Field(description="Largest revenue first")


@toolbox.tool()
def sales_report(
    database: sqlite3.Connection,
    group_by: Literal["category", "country", "month", "product", "customer"],
    since: date | None = None,
    until: date | None = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 10,
) -> ReportRows:
    """Aggregate sales: orders, units and revenue per category, country, month, product or customer."""
    rows = database.execute(
        "SELECT CASE :group_by WHEN 'category' THEN p.category WHEN 'country' THEN c.country "
        "WHEN 'month' THEN substr(o.day, 1, 7) WHEN 'product' THEN p.sku ELSE CAST(c.id AS TEXT) END AS key, "
        "count(DISTINCT o.id) AS orders, sum(l.quantity) AS units, round(sum(l.quantity * l.price), 2) AS revenue "
        "FROM lines l JOIN orders o ON o.id = l.order_id JOIN products p USING (sku) "
        "JOIN customers c ON c.id = o.customer_id WHERE o.status NOT IN ('cancelled', 'returned') "
        "AND (:since IS NULL OR o.day >= :since) AND (:until IS NULL OR o.day <= :until) "
        "GROUP BY key ORDER BY revenue DESC, key LIMIT :limit",
        {"group_by": group_by, "since": _day(since), "until": _day(until), "limit": limit},
    )
    return ReportRows(rows=[ReportRow(**row) for row in rows])


@toolbox.tool(SETS)
def set_stock(
    database: sqlite3.Connection,
    sku: str,
    stock: Annotated[int, Field(ge=0, le=100_000, description="Units on the shelf from now on")],
) -> Product:
    """Set how many units of a product are in stock."""
    database.execute("UPDATE products SET stock = ? WHERE sku = ?", (stock, sku))
    return _product(database, sku)


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _product(database: sqlite3.Connection, sku: str) -> Product:
    row = database.execute("SELECT * FROM products WHERE sku = ?", (sku,)).fetchone()
    if row is None:
        raise Refused(f"no product has the SKU {sku!r}; search_products finds SKUs")
    return Product(**row)


server = toolbox.server()
