"""Members that code reads and no result of its calls has: found by reading the code and the results, or not said at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import answer, running_app
from gatemini.explain.error_facts import HintContext
from gatemini.explain.results.missing_members import missing_members
from gatemini.explain.results.read_values import MOST_BYTES
from gatemini.output.json.javascript_json import dumps
from gatemini_sandbox.typescript.reads.find_reads import find_reads

ORDER = {"id": 5, "customer_id": 7, "day": "2026-01-02", "status": "open", "total": 12.5}
EVENTS = [{"kind": "push", "commits": 3, "at": 1}, {"kind": "push", "commits": 1, "at": 2}]
RESULTS: dict[str, list[Any]] = {
    "order": [{**ORDER, "lines": [{"sku": "A", "quantity": 1}, {"sku": "B", "quantity": 2}]}],
    "orders": [{"orders": [ORDER, {**ORDER, "id": 6, "status": "shipped", "total": 700}], "total": 2}],
    "products": [{"products": [{"sku": "A", "price": 3, "stock": 1}, {"sku": "B", "price": 5, "stock": 0}]}],
    "events": [EVENTS],
    "mixed": [[{"id": 1}, {"id": 2, "note": "n"}]],
    "page": [{"items": [{"id": 1, "label": "a"}]}],
    "none": [{"items": []}],
    "one": [{"items": [{"id": 1}]}],
    "file": [{"content": '{"offices": [{"city": "Rome", "timezone": "Europe/Rome"}]}'}],
    "broken": ["[{'id': 1, 'name': "],
    "prose": ["Commit: 1\nCommit: 2"],
    "owner": [{"name": "n", "owner": {"login": "x"}}],
    "nothing": [None],
    "described": [{"id": 1}],
}
DECLARED: dict[str, dict[str, None]] = {"described": {"id": None, "nickname": None}}


def notes(
    code: str, results: dict[str, list[Any]] | None = None, until: tuple[int, int] | None = None
) -> list[str]:
    known = results or RESULTS

    def texts(_backend: str, tool: str) -> Sequence[str]:
        return [dumps(result) for result in known.get(tool, [])]

    context = HintContext(
        backends={"shop": "shop"}, results=texts, declared=lambda _, tool: DECLARED.get(tool, {})
    )
    return missing_members(find_reads(code, frozenset(["shop"])), context, until)


ORDERS = "const { orders } = await shop.orders({ limit: 50 });\n"


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("const o = await shop.order({ id: 5 });\nif (o.state === 'cancelled') return 1;\nreturn 2;",
         "o.state is undefined (line 2): the result of shop.order is an object {id, customer_id, day, status, total, lines}; did you mean status?"),
        ("const { products } = await shop.products({});\nreturn products.filter(p => p.inStock);",
         "p.inStock is undefined (line 2), so that nothing passes: the items of products in the result of shop.products have {sku, price, stock}; did you mean stock?"),
        ("const { products } = await shop.products({});\nreturn products.filter((p) => p.inStock && p.price < 9);", "p.inStock is undefined (line 2), so that nothing passes"),
        (ORDERS + "let sum = 0;\nfor (const o of orders) sum += o.amount;\nreturn sum;", "o.amount is undefined (line 3): the items of orders in the result of shop.orders have {id, customer_id, day, status, total}"),
        (ORDERS + "return Object.groupBy(orders, o => o.country);", "o.country is undefined (line 2)"),
        (ORDERS + "return Map.groupBy(orders, (o) => o.customer).size;", "; did you mean customer_id?"),
        (ORDERS + "return orders.reduce((s, o) => s + o.amount, 0);", "o.amount is undefined (line 2)"),
        (ORDERS + "return orders.sort((a, b) => b.amount - a.amount)[0].id;", "b.amount, a.amount are undefined (line 2)"),
        (ORDERS + "return orders.map(o => `${o.id}: ${o.amount}`);", "o.amount is undefined (line 2)"),
        (ORDERS + "return orders.map(({ id, amount }) => ({ id, amount }));", "amount is undefined (line 2)"),
        (ORDERS + "return orders.map(o => ({ a: o['total'], b: o['sum'] }));", "o['sum'] is undefined (line 2)"),
        (ORDERS + "const first = orders[0];\nreturn await shop.order({ id: first.orderId });", "first.orderId is undefined (line 3)"),
        (ORDERS + "const out: any[] = [];\norders.forEach((o: any) => { out.push(o.customer); });\nreturn out;", "o.customer is undefined (line 3)"),
        (ORDERS + "for (let i = 0; i < orders.length; i++) console.log(orders[i].when);", "orders[i].when is undefined (line 2)"),
        (ORDERS + "const by = {};\nfor (const o of orders) by[o.customer] = o.total;\nreturn by;", "o.customer is undefined (line 3)"),
        (ORDERS + "const big = orders.filter(o => o.total > 100);\nreturn big.map(o => o.amount);", "o.amount is undefined (line 3)"),
        (ORDERS + "for (const o of orders) { if (o.status !== 'shipped') continue; console.log(o.amount); }", "o.amount is undefined (line 2)"),
        (ORDERS + "if (!orders.length) return [];\nreturn orders.map(o => o.amount);", "o.amount is undefined (line 3)"),
        (ORDERS + "const big = [];\nfor (const o of orders) if (o.total > 100) big.push(o);\nreturn big.map(b => b.amount);", "b.amount is undefined (line 4)"),
        (ORDERS + "const m = new Map(orders.map(o => [o.id, o]));\nreturn [...m.values()].length + m.get(5).amount;", "m.get(5).amount is undefined (line 3)"),
        (ORDERS + "const show = (o) => `${o.customer}`;\nreturn orders.map(show);", "o.customer is undefined (line 2)"),
        (ORDERS + "const { amount } = orders.find(o => o.id === 5);\nreturn amount * 2;", "amount is undefined (line 2)"),
        ("const r = await shop.orders({});\nconst { count } = r;\nreturn `${count} orders`;", "count is undefined (line 2): the result of shop.orders is an object {orders, total}"),
        ("const { orders: [o] } = await shop.orders({});\nreturn o.amount + 1;", "o.amount is undefined (line 2)"),
        ("return (await shop.order({ id: 5 })).lines.map(l => l.qty);", "l.qty is undefined (line 1): the items of lines in the result of shop.order have {sku, quantity}"),
        ("const all = [];\nlet page = await shop.page({});\nwhile (true) {\n  all.push(...page.items);\n  if (!page.next) break;\n  page = await shop.page({ at: page.next });\n}\nreturn all.map(i => i.title);", "i.title is undefined (line 8)"),
        ("const rs = await Promise.all([1, 2].map(async (id) => {\n  const r = await shop.order({ id });\n  return { id, who: r.customer };\n}));\nreturn rs;", "r.customer is undefined (line 3)"),
        ("const rs = await Promise.all([1, 2].map((id) => shop.order({ id })));\nreturn rs.map(r => r.customer);", "r.customer is undefined (line 2)"),
        ("const [a, b] = await Promise.all([shop.order({ id: 1 }), shop.orders({})]);\nreturn a.sum + b.total;", "a.sum is undefined (line 2)"),
        ("const t = await shop.file({});\nreturn JSON.parse(t.content).offices.map(o => o.tz);", "o.tz is undefined (line 2): the items of content.offices in the result of shop.file have {city, timezone}"),
        ("async function main() {\n  const o = await shop.order({ id: 5 });\n  return `${o.state}`;\n}\nreturn await main();", "o.state is undefined (line 3)"),
        ("export default async function main() {\n  const o = await shop.order({ id: 5 });\n  switch (o.state) { case 'a': return 1; default: return 2; }\n}", "o.state is undefined (line 3)"),
        ("const rows = await shop.broken({});\nconst out = [];\nfor (const r of rows) out.push({ id: r.id, name: r.name });\nreturn out;",
         "the result of shop.broken is text (\"[{'id': 1, 'name': \"), no array and no object: its items are characters, and r.id, r.name undefined (line 3)"),
        ("const rows = await shop.broken({});\nreturn rows.length;", "rows.length (line 2) counts its characters"),
        ("const o = await shop.owner({});\nreturn `${o.owner.name}`;", "o.owner.name is undefined (line 2): owner in the result of shop.owner is an object {login}"),
    ],
)  # fmt: skip
def test_a_member_that_no_result_has_is_named_with_those_that_there_are(code: str, note: str) -> None:
    said = notes(code)
    assert len(said) == 1
    assert note in said[0]


@pytest.mark.parametrize(
    "code",
    [
        "const o = await shop.order({});\nreturn { a: o.note ?? 'none', b: o.sum || 0, c: o.gift?.text, d: o?.nope };",
        "const o = await shop.order({});\nif (o.error) return o.error;\nreturn o.total;",
        "const o = await shop.order({});\nreturn o.gift ? o.gift.text : 'none';",
        "const o = await shop.order({});\nreturn typeof o.meta === 'undefined' ? 1 : o.meta;",
        "const o = await shop.order({});\nreturn o.shipped === undefined || o.shipped == null;",
        "const o = await shop.order({});\nif ('gift' in o) return o.gift;\nreturn Object.hasOwn(o, 'tax') ? o.tax : 0;",
        "const o = await shop.order({});\nconst { coupon, tax = 0 } = o;\nreturn coupon ? 1 : tax + 1;",
        "const o = await shop.order({});\nconst gift = o.gift;\nif (!gift) return 'none';\nreturn `${gift}`;",
        "const o = await shop.order({});\no.sum = 3;\nreturn o.sum;",
        "const o = await shop.order({});\nObject.assign(o, { sum: 1 });\nreturn o.sum;",
        "const o = await shop.order({});\nreturn [o.first, o.last].filter(Boolean).join(' ');",
        "const o = await shop.order({});\nconst show = (x) => x ?? '-';\nreturn show(o.gift);",
        "const o = await shop.order({});\nreturn Array.isArray(o.tags) ? o.tags.length : 0;",
        "const o = await shop.order({});\nreturn ['id', 'nope'].map(k => o[k]);",
        "const o = await shop.order({});\nreturn o.toString() + o.lines.at(0).sku.toLowerCase() + o.total.toFixed(2) + o.hasOwnProperty('id');",
        "const o = await shop.order.raw({});\nreturn `${o.structuredContent}`;",
        "try { const o = await shop.order({}); throw new Error('x'); } catch (e) { return `${e.nope}`; }",
        ORDERS + "return orders.filter(o => !o.archived).length;",
        ORDERS + "return orders.filter(o => o.error).length;",
        ORDERS + "return orders.some(o => o.flagged);",
        ORDERS + "return orders.map(o => o.phone).filter(Boolean);",
        ORDERS + "const rich = orders.map(o => ({ ...o, big: o.total > 1 }));\nreturn rich.map(r => r.big);",
        ORDERS + "for (const o of orders) o.sum = o.total * 2;\nreturn orders.map(o => o.sum);",
        ORDERS + "const describe = (o) => { return o.note ? o.note : 'none'; };\nreturn orders.map(describe);",
        ORDERS + "return orders.filter(o => o.status === 'returned').map(o => o.refund);",
        ORDERS + "return orders.map(o => o.status === 'returned' ? o.refund : o.total);",
        ORDERS + "return orders.map(o => o.status === 'returned' && o.refund);",
        ORDERS + "for (const o of orders) { if (o.status !== 'returned') continue; console.log(o.refund); }",
        ORDERS + "for (const o of orders) { if (isOdd(o)) console.log(o.refund); }\nfunction isOdd(o) { return o.id % 2; }",
        ORDERS + "for (const o of orders) switch (o.status) { case 'returned': console.log(o.refund); break; case 'open': break; }",
        ORDERS + "if (orders.length > 100) return orders.map(o => o.more);\nreturn 1;",
        ORDERS + "const big = [];\nfor (const o of orders) if (o.total > 1e6) big.push(o);\nreturn big.map(o => o.bonus);",
        ORDERS + "const late = orders.find(o => o.status === 'late');\nreturn late ? `${late.days}` : 0;",
        ORDERS + "const more = () => orders.map(o => o.never);\nreturn 1;",
        ORDERS + "const groups = {};\nfor (const o of orders) (groups[o.status] ??= []).push(o);\nreturn Object.values(groups).map(g => g.count);",
        ORDERS + "return orders.filter(o => o.status === 'none').sort((a, b) => a.rank - b.rank);",
        "const e = await shop.events({});\nreturn e.map(x => x.kind === 'issue' ? x.title : x.commits);",
        "const e = await shop.events({});\nreturn e.filter(x => x.kind === 'issue').map(x => `${x.title}`);",
        "const m = await shop.mixed({});\nreturn m.map(x => `${x.note}`);",
        "let at;\nconst all = [];\ndo { const p = await shop.page({ at }); all.push(...p.items); at = p.next; } while (at);\nreturn all.length;",
        "let p = await shop.page({});\nwhile (p.next) p = await shop.page({ at: p.next });\nreturn p.items.length;",
        "const r = await shop.none({});\nreturn r.items.map(i => i.whatever);",
        "const r = await shop.one({});\nreturn r.items.sort((a, b) => a.rank - b.rank).length + r.items.length;",
        "const t = await shop.prose({});\nlet n = 0;\nfor (const c of t) if (c === '\\n') n++;\nreturn [n, t.length, t.split('\\n').length];",
        "const n = await shop.nothing({});\nreturn n?.x;",
        "const d = await shop.described({});\nreturn { nick: d.nickname };",
        "const o = await shop.order({}).catch(() => ({ failed: 1 }));\nreturn `${o.failed}`;",
        "const shop2 = { order: async () => ({ x: 1 }) };\nconst o = await shop2.order();\nreturn o.x;",
        "async function f(shop) { const o = await shop.order({}); return o.nope + 1; }\nreturn 1;",
        "class Box { get(o) { return o.nope + 1; } }\nconst o = await shop.order({});\nreturn new Box().get(o);",
        "const o = await shop.order({});\nlet x = o;\nx = { nope: 1 };\nreturn x.nope + 1;",
        "const o = (await shop.order({})) as { nope?: string };\nconst copy = structuredClone(o);\nreturn copy.nope;",
        "const never = await shop.uncalled({});\nreturn never.x + 1;",
    ],
)  # fmt: skip
def test_nothing_is_said_where_the_code_asks_or_may_not_have_read_it(code: str) -> None:
    assert notes(code) == []


def test_another_result_of_the_same_tool_with_the_member_silences_the_note() -> None:
    code = "const a = await shop.order({ id: 1 });\nconst b = await shop.order({ id: 2 });\nreturn a.gift + b.gift;"
    assert len(notes(code, {"order": [{"id": 1}, {"id": 2}]})) == 1
    assert notes(code, {"order": [{"id": 1}, {"id": 2, "gift": "g"}]}) == []


def test_of_code_that_failed_only_reads_before_that_place_count() -> None:
    code = "const o = await shop.order({});\nconst a = o.state + 1;\nnull.x;\nreturn o.nope + 1;"
    assert [note.split(" ")[0] for note in notes(code, until=(3, 6))] == ["o.state"]


def test_held_calls_of_a_dry_run_and_results_too_large_to_look_into_are_left_alone() -> None:
    code = "const o = await shop.order({});\nreturn o.nope + 1;"
    assert notes(code, {"order": [{"dry_run": True}]}) == []
    assert notes(code, {"order": [{"id": "x" * MOST_BYTES}]}) == []
    assert len(notes(code, {"order": [{"id": "x" * (MOST_BYTES // 2)}]})) == 1


def test_many_values_are_looked_at_as_long_as_that_takes_a_moment() -> None:
    code = "const r = await shop.order({});\nreturn r.map(x => x.nope + 1);"
    rows: list[dict[str, Any]] = [{"id": n} for n in range(10_000)]
    assert len(notes(code, {"order": [rows]})) == 1
    assert notes(code, {"order": [[*rows[:3000], {"nope": 1}]]}) == []


@pytest.mark.parametrize(
    ("code", "value", "note"),
    [
        ("const rows = await demo.rows({ n: 3 });\nreturn rows.filter(r => r.active);", "[]", "r.active is undefined (line 2), so that nothing passes"),
        ("let sum = 0;\nfor (const r of await demo.rows({ n: 3 })) sum += r.points;\nreturn sum;", "null", "r.points is undefined (line 2)"),
        ("const rows = await demo.rows({ n: 3 });\nreturn rows.filter(r => r.score > -1).map(r => r.name).length;", "3", ""),
    ],
)  # fmt: skip
@pytest.mark.anyio
async def test_the_answer_of_a_chain_carries_the_note(
    tmp_path: Path, code: str, value: str, note: str
) -> None:
    async with running_app(tmp_path) as app:
        text, is_error, _ = await answer(app, code)
    assert not is_error
    assert text.split("\n")[0] == value
    assert note in text if note else "undefined" not in text


@pytest.mark.anyio
async def test_the_text_of_a_failed_chain_carries_what_its_hint_does_not_say(tmp_path: Path) -> None:
    code = "const [row] = await demo.rows({ n: 1 });\nconst who = `${row.owner}`;\nreturn await demo.fail({ message: who });"
    async with running_app(tmp_path) as app:
        text, is_error, *_ = await answer(app, code)
    assert is_error
    assert "NOTE: row.owner is undefined (line 2)" in text
