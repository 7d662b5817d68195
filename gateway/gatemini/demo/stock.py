"""The shop's database: a schema and some thousands of rows that are the same on every run.

Rows are drawn from a seeded generator, so examples in the documentation keep their numbers.
"""

from __future__ import annotations

import random
import sqlite3
from datetime import date, timedelta

CUSTOMERS, PRODUCTS, ORDERS = 400, 180, 3000
_SEED = 20260728
_FIRST_DAY = date(2026, 1, 1)
_DAYS = 300

_SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL,
    country TEXT NOT NULL, timezone TEXT NOT NULL, tier TEXT NOT NULL);
CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price REAL NOT NULL,
    stock INTEGER NOT NULL, weight_kg REAL NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
    day TEXT NOT NULL, status TEXT NOT NULL, total REAL NOT NULL);
CREATE TABLE lines (order_id INTEGER NOT NULL REFERENCES orders (id), sku TEXT NOT NULL REFERENCES products (sku),
    quantity INTEGER NOT NULL, price REAL NOT NULL);
CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE INDEX lines_by_order ON lines (order_id);
"""

_CITIES = (
    ("Berlin", "Germany", "Europe/Berlin"),
    ("Lyon", "France", "Europe/Paris"),
    ("Porto", "Portugal", "Europe/Lisbon"),
    ("Leeds", "United Kingdom", "Europe/London"),
    ("Chicago", "United States", "America/Chicago"),
    ("Portland", "United States", "America/Los_Angeles"),
    ("Toronto", "Canada", "America/Toronto"),
    ("Recife", "Brazil", "America/Recife"),
    ("Nairobi", "Kenya", "Africa/Nairobi"),
    ("Pune", "India", "Asia/Kolkata"),
    ("Osaka", "Japan", "Asia/Tokyo"),
    ("Perth", "Australia", "Australia/Perth"),
)
_FIRST = "Ada Ben Chloe Dai Elif Femi Greta Hugo Ines Jun Kofi Lena Mira Noor Otto Priya Quinn Rosa Sven Tara".split()  # noqa: SIM905
_LAST = "Abe Brandt Costa Diaz Endo Fischer Gupta Hansen Ito Jones Kamau Lopez Meyer Novak Okoye Park Reyes Silva".split()  # noqa: SIM905
_STYLES = ["Oak", "Steel", "Linen", "Walnut", "Copper", "Canvas", "Marble", "Cork", "Slate", "Birch"]
_KINDS = {
    "lighting": ("Desk Lamp", "Floor Lamp", "Pendant", "Reading Light"),
    "furniture": ("Desk", "Chair", "Shelf", "Stool", "Side Table"),
    "kitchen": ("Teapot", "Chopping Board", "Mug", "Carafe", "Tray"),
    "office": ("Notebook", "Pen Tray", "Paper Stand", "Monitor Riser"),
}
_STATUSES = ("delivered",) * 7 + ("shipped", "open", "open", "cancelled", "returned")
_TIERS = ("standard",) * 6 + ("silver",) * 3 + ("gold",)


def open_database() -> sqlite3.Connection:
    """Return a filled in-memory database; the caller closes it."""
    draw = random.Random(_SEED)  # noqa: S311 - the same rows each time are the point
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.executescript(_SCHEMA)
    database.executemany("INSERT INTO customers VALUES (?,?,?,?,?,?,?)", _customers(draw))
    products = _products(draw)
    database.executemany("INSERT INTO products VALUES (?,?,?,?,?,?)", products)
    orders, lines = _orders(draw, products)
    database.executemany("INSERT INTO orders VALUES (?,?,?,?,?)", orders)
    database.executemany("INSERT INTO lines VALUES (?,?,?,?)", lines)
    database.commit()
    return database


def _customers(draw: random.Random) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for number in range(1, CUSTOMERS + 1):
        first, last = draw.choice(_FIRST), draw.choice(_LAST)
        email = f"{first}.{last}{number}@example.com".lower()
        rows.append((number, f"{first} {last}", email, *draw.choice(_CITIES), draw.choice(_TIERS)))
    return rows


def _products(draw: random.Random) -> list[tuple[str, str, str, float, int, float]]:
    every = [
        (style, kind, category) for category, kinds in _KINDS.items() for kind in kinds for style in _STYLES
    ]
    return [
        (
            f"{category[:3].upper()}-{number:04d}",
            f"{style} {kind}",
            category,
            round(draw.uniform(6, 420), 2),
            draw.choice((0, draw.randrange(200), draw.randrange(200))),
            round(draw.uniform(0.2, 24), 2),
        )
        for number, (style, kind, category) in enumerate(draw.sample(every, PRODUCTS), 1)
    ]


def _orders(
    draw: random.Random, products: list[tuple[str, str, str, float, int, float]]
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    orders: list[tuple[object, ...]] = []
    lines: list[tuple[object, ...]] = []
    for number in range(1, ORDERS + 1):
        # The square makes some customers order far more than others.
        customer = 1 + int(draw.random() ** 2 * CUSTOMERS)
        day = _FIRST_DAY + timedelta(days=draw.randrange(_DAYS))
        total = 0.0
        for sku, _name, _category, price, _stock, _weight in draw.sample(products, draw.randint(1, 4)):
            quantity = draw.randint(1, 5)
            total += quantity * price
            lines.append((number, sku, quantity, price))
        orders.append((number, customer, day.isoformat(), draw.choice(_STATUSES), round(total, 2)))
    return orders, lines
