"""Demo backend `shop`: customers, products and orders of a small furniture shop, in SQLite.

Queries run on the event loop: each takes a few milliseconds at most on an in-memory database of this size.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import date
from typing import Any, Literal

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.stock import open_database
from gatemini.demo.toolbox import SETS, Arguments, Refused, Toolbox

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


class ProductSearch(Arguments):
    query: str = Field(default="", description="Words of the name, such as lamp or oak desk")
    category: Literal["lighting", "furniture", "kitchen", "office"] | None = None
    in_stock: bool = Field(default=False, description="Only what can be sent today")
    limit: int = Field(default=20, ge=1, le=200)


class ProductPage(BaseModel):
    products: list[Product]
    total: int = Field(description="Matches in all, also those beyond the limit")


@toolbox.tool(
    "search_products",
    "Search the product catalogue by words, category and availability.",
    ProductSearch,
    gives=ProductPage,
)
def search_products(database: sqlite3.Connection, arguments: ProductSearch) -> ProductPage:
    rows = database.execute(
        "SELECT * FROM products WHERE (:category IS NULL OR category = :category) "
        "AND (:in_stock = 0 OR stock > 0) ORDER BY name",
        {"category": arguments.category, "in_stock": arguments.in_stock},
    )
    words = arguments.query.casefold().split()
    found = [Product(**row) for row in rows if all(word in row["name"].casefold() for word in words)]
    return ProductPage(products=found[: arguments.limit], total=len(found))


class Sku(Arguments):
    sku: str = Field(description="Stock keeping unit, such as LIG-0012")


@toolbox.tool("get_product", "Get one product by its SKU.", Sku, gives=Product)
def get_product(database: sqlite3.Connection, arguments: Sku) -> Product:
    return _product(database, arguments.sku)


class CustomerFilter(Arguments):
    country: str | None = None
    tier: Literal["standard", "silver", "gold"] | None = None
    limit: int = Field(default=50, ge=1, le=1000)
    offset: int = Field(default=0, ge=0)


class CustomerPage(BaseModel):
    customers: list[Customer]
    total: int


@toolbox.tool(
    "list_customers", "List customers, filtered by country and tier.", CustomerFilter, gives=CustomerPage
)
def list_customers(database: sqlite3.Connection, arguments: CustomerFilter) -> CustomerPage:
    found = database.execute(
        "SELECT * FROM customers WHERE (:country IS NULL OR country = :country) AND (:tier IS NULL OR tier = :tier) "
        "ORDER BY id",
        arguments.model_dump(),
    ).fetchall()
    page = found[arguments.offset : arguments.offset + arguments.limit]
    return CustomerPage(customers=[Customer(**row) for row in page], total=len(found))


class CustomerId(Arguments):
    customer_id: int


class CustomerSummary(Customer):
    orders: int
    revenue: float = Field(description="EUR, cancelled and returned orders left out")


@toolbox.tool(
    "get_customer",
    "Get one customer with the number of orders and the revenue.",
    CustomerId,
    gives=CustomerSummary,
)
def get_customer(database: sqlite3.Connection, arguments: CustomerId) -> CustomerSummary:
    row = database.execute(
        "SELECT c.*, count(o.id) AS orders, "
        "round(total(CASE WHEN o.status IN ('cancelled', 'returned') THEN 0 ELSE o.total END), 2) AS revenue "
        "FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE c.id = ? GROUP BY c.id",
        (arguments.customer_id,),
    ).fetchone()
    if row is None:
        raise Refused(f"there is no customer {arguments.customer_id}; list_customers shows them")
    return CustomerSummary(**row)


class OrderFilter(Arguments):
    customer_id: int | None = None
    status: Status | None = None
    since: date | None = Field(default=None, description="First day, 2026-01-01 to 2026-10-27")
    until: date | None = Field(default=None, description="Last day")
    limit: int = Field(default=500, ge=1, le=5000)


class OrderPage(BaseModel):
    orders: list[Order]
    total: int


@toolbox.tool(
    "list_orders",
    "List orders, newest first, by customer, status and day. Often hundreds of rows.",
    OrderFilter,
    gives=OrderPage,
)
def list_orders(database: sqlite3.Connection, arguments: OrderFilter) -> OrderPage:
    found = database.execute(
        "SELECT * FROM orders WHERE (:customer_id IS NULL OR customer_id = :customer_id) "
        "AND (:status IS NULL OR status = :status) "
        "AND (:since IS NULL OR day >= :since) AND (:until IS NULL OR day <= :until) ORDER BY day DESC, id DESC",
        arguments.model_dump(mode="json"),
    ).fetchall()
    return OrderPage(orders=[Order(**row) for row in found[: arguments.limit]], total=len(found))


class OrderId(Arguments):
    order_id: int


class OrderLine(BaseModel):
    sku: str
    name: str
    quantity: int
    price: float


class OrderDetail(Order):
    lines: list[OrderLine]


@toolbox.tool("get_order", "Get one order with its lines.", OrderId, gives=OrderDetail)
def get_order(database: sqlite3.Connection, arguments: OrderId) -> OrderDetail:
    row = database.execute("SELECT * FROM orders WHERE id = ?", (arguments.order_id,)).fetchone()
    if row is None:
        raise Refused(f"there is no order {arguments.order_id}")
    lines = database.execute(
        "SELECT l.sku, p.name, l.quantity, l.price FROM lines l JOIN products p USING (sku) WHERE l.order_id = ?",
        (arguments.order_id,),
    )
    return OrderDetail(**row, lines=[OrderLine(**line) for line in lines])


class Report(Arguments):
    group_by: Literal["category", "country", "month", "product", "customer"]
    since: date | None = None
    until: date | None = None
    limit: int = Field(default=10, ge=1, le=500)


class ReportRow(BaseModel):
    key: str = Field(description="Category, country, YYYY-MM, SKU or customer id")
    orders: int
    units: int
    revenue: float


class ReportRows(BaseModel):
    rows: list[ReportRow] = Field(description="Largest revenue first")


@toolbox.tool(
    "sales_report",
    "Aggregate sales: orders, units and revenue per category, country, month, product or customer.",
    Report,
    gives=ReportRows,
)
def sales_report(database: sqlite3.Connection, arguments: Report) -> ReportRows:
    parameters: dict[str, Any] = arguments.model_dump(mode="json")
    rows = database.execute(
        "SELECT CASE :group_by WHEN 'category' THEN p.category WHEN 'country' THEN c.country "
        "WHEN 'month' THEN substr(o.day, 1, 7) WHEN 'product' THEN p.sku ELSE CAST(c.id AS TEXT) END AS key, "
        "count(DISTINCT o.id) AS orders, sum(l.quantity) AS units, round(sum(l.quantity * l.price), 2) AS revenue "
        "FROM lines l JOIN orders o ON o.id = l.order_id JOIN products p USING (sku) "
        "JOIN customers c ON c.id = o.customer_id WHERE o.status NOT IN ('cancelled', 'returned') "
        "AND (:since IS NULL OR o.day >= :since) AND (:until IS NULL OR o.day <= :until) "
        "GROUP BY key ORDER BY revenue DESC, key LIMIT :limit",
        parameters,
    )
    return ReportRows(rows=[ReportRow(**row) for row in rows])


class StockChange(Arguments):
    sku: str
    stock: int = Field(ge=0, le=100_000, description="Units on the shelf from now on")


@toolbox.tool(
    "set_stock", "Set how many units of a product are in stock.", StockChange, gives=Product, hints=SETS
)
def set_stock(database: sqlite3.Connection, arguments: StockChange) -> Product:
    database.execute("UPDATE products SET stock = ? WHERE sku = ?", (arguments.stock, arguments.sku))
    return _product(database, arguments.sku)


def _product(database: sqlite3.Connection, sku: str) -> Product:
    row = database.execute("SELECT * FROM products WHERE sku = ?", (sku,)).fetchone()
    if row is None:
        raise Refused(f"no product has the SKU {sku!r}; search_products finds SKUs")
    return Product(**row)


server = toolbox.server()
