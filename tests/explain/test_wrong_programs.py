"""Programs as agents get them wrong, run by a whole gateway: what the answer says so that one look corrects them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fixtures.running import answer, running_app
from gatemini.app import App

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("wrong")) as running:
        yield running


PEOPLE = "demo.echo({ people: [{ id: 1 }], page: 2 })"
PRICES = "const { rows } = await demo.echo({ rows: [{ sku: 'a', price: '1,200.50', n: '10' }, { sku: 'b', price: '30', n: '9' }] });\n"
TIMES = "const { rows } = await demo.echo({ rows: [{ ts: 1772323200, at: '2026-03-01T00:00:00Z' }] });\n"
ROWS = "const rows = await demo.rows({ n: 2 });\n"

FAILING = {
    "the method of a list on what holds one": (
        f"return (await {PEOPLE}).map((p) => p.id);",
        "is an object {people, page}, not an array: use (await demo.echo({ people: [{ id: 1 }], page: 2 })).people",
    ),
    "a member of a wrapper that is not there": (
        f"const people = (await {PEOPLE}).results;\nreturn people.map((p) => p.id);",
        "the result of demo.echo is an object {people, page}",
    ),
    "taking apart what is no list": (
        f"const [first] = await {PEOPLE};\nreturn first;",
        "the result is an object {people, page}, not an array: use .people",
    ),
    "an index below zero": (ROWS + "return rows[-1].id;", "write .at(-1)"),
    "a match that is none": ("return 'a'.match(/b/)[0];", ".match(…) gives null where nothing matches"),
    "a search by text among numbers": (
        "const found = (await demo.rows({ n: 2 })).find((r) => r.id === '1');\nreturn found.name;",
        "so that === with text is never true",
    ),
    "a variable that a search left without a value": (
        "const found = (await demo.rows({ n: 2 })).find((r) => r.id === 99);\nreturn found.name;",
        ".find(…) gives undefined where nothing is found",
    ),
    "a search without a result": (ROWS + "return rows.find((r) => r.id === 99).name;", ".find(…) gives undefined where nothing is found"),
    "Python's append": (ROWS + "rows.append({ id: 9 });\nreturn rows;", "and has no function append: write list.push(value)"),
    "Python's get": (ROWS + "return rows[0].get('name');", "write object.key, or object[key]"),
    "lodash' sortBy": (ROWS + "return rows.sortBy('score');", "list.toSorted((a, b) => a.key - b.key)"),
    "the json() of a response": (ROWS + "return await rows.json();", "the value itself: results arrive parsed"),
    "Python's sum": (ROWS + "return sum(rows.map((r) => r.score));", "list.reduce((sum, x) => sum + x, 0)"),
    "Python's is None": (ROWS + "if (rows is None) return 0;\nreturn 1;", "write `x === null`"),
    "Python's elif": ("if (1) { return 1 }\nelif (2) { return 2 }", "write `else if` instead of elif"),
    "a method of text on a number": ("const r = await demo.echo({ id: 7 });\nreturn r.id.padStart(5);", "write String(r.id).padStart(…)"),
    "calls in a map without Promise.all": (
        "const got = [1, 2].map((n) => demo.echo({ n }));\nreturn got.map((g) => g.n);",
        "write `await Promise.all(xs.map(…))`",
    ),
    "Promise.all without its array": ("return await Promise.all(demo.echo({}), demo.echo({}));", "Promise.all takes one array"),
    "await of an array": ("const [a] = await [demo.echo({ n: 1 })];\nreturn a.n;", "write `await Promise.all([…])`"),
    "a line that goes on in the next": (
        "const rows = await demo.rows({ n: 1 })\n(rows.length > 3) && console.log('many');\nreturn rows.length;",
        "line 1 goes on in line 2, which begins with `(`",
    ),
    "a page of rows taken for the rows": (
        "const h = await results.save([1, 2]);\nconst page = await results.rows(h);\nreturn page.filter((x) => x > 1);",
        "results.rows gives an object: use page.rows",
    ),
    "JSON in a member": (
        "const r = await demo.echo({ status: 200, body: '{\"users\": [1]}' });\nreturn r.body.users.map((u) => u);",
        "r.body is text (\"{\\\"users\\\": [1]}\"); it holds JSON: use JSON.parse(r.body)",
    ),
    "a file of JSON that is parsed as a whole": (
        "const t = await demo.echo({ content: '{\"offices\": [1]}' });\nreturn JSON.parse(t).offices.length;",
        "t is an object {content}: t.content is text: it holds JSON: use JSON.parse(t.content)",
    ),
    "a call of which all is parsed": (
        "return JSON.parse(await demo.echo({ content: '{\"offices\": [1]}' })).offices.length;",
        "answer is an object {content}: answer.content is text: it holds JSON: use JSON.parse(answer.content)",
    ),
    "a file of JSON taken for its rows": (
        "const t = await demo.echo({ content: '[{\"id\": 1}]' });\nreturn t.map((x) => x.id);",
        "t is an object {content}, not an array: t.content is text: it holds JSON: use JSON.parse(t.content)",
    ),
    "JSON in each line": (
        "const r = await demo.echo({ content: '{\"id\":1}\\n{\"id\":2}' });\nreturn r.map((x) => x.id);",
        "it holds JSON in each line: use r.content.trim().split(\"\\n\").map((line) => JSON.parse(line))",
    ),
    "JSON with a heading that is parsed": (
        "const r = await demo.echo({ body: 'Found 2:\\n[{\"id\": 1}, {\"id\": 2}]' });\nconst t = r.body;\nreturn JSON.parse(t).length;",
        'it holds JSON with other text around it: use JSON.parse(t.slice(t.indexOf("["), t.lastIndexOf("]") + 1))',
    ),
    "JSON behind a heading": (
        "const r = await demo.echo({ content: 'Found 2:\\n[{\"id\": 1}, {\"id\": 2}]' });\nreturn r.map((x) => x.id);",
        "use JSON.parse(r.content.slice(r.content.indexOf(\"[\"), r.content.lastIndexOf(\"]\") + 1))",
    ),
    "Python objects": (
        "const r = await demo.echo({ content: \"[(Decimal('1.5'), 'x')]\" });\nreturn r.map((x) => x[0]);",
        "it holds Python objects",
    ),
    "several reads of nothing in one line": (
        "const t = await demo.echo({ content: 'a' });\nreturn t.rows[0][0];",
        "t.rows is undefined",
    ),
    "a method that no value of its kind has": (
        "const now = await demo.echo({ time: '10:00' });\nreturn now.getHours();",
        "now is an object {time} and has no function getHours",
    ),
    "a member of a caught error that axios has": (
        "try { await demo.fail({ message: 'x' }); } catch (e) { return e.response.status; }",
        "the error of a call has message, tool, and often code and structured",
    ),
    "a name that was taken apart under another": (
        "const { orders: list } = await demo.echo({ orders: [] });\nreturn orders.length;",
        "orders is called list in this code",
    ),
    "await in front of parentheses": (
        "return await (demo.echo({ a: [1] })).a;",
        "write `(await demo.echo({ a: [1] })).a`",
    ),
    "the second item of another kind": (
        "const r = await demo.echo({ items: ['text', { type: 'image' }] });\nconst [, image] = r.items;\nreturn image.data.length;",
        "the items of items in the result of demo.echo have {type}",
    ),
    "prose without a fence": ("Sure! Here is the code:\nreturn 1;", "this line is prose"),
    "another client's JSON call": ('{"name": "demo.echo", "parameters": {}}', 'write "tool" instead of "name" and "arguments" instead of "parameters"'),
    "one argument under another name": ("return await demo.sleep({ seconds: 1 });", '"ms"'),
}  # fmt: skip

FAILING |= {
    "reduce without a first value": (
        "const { rows } = await demo.echo({ rows: [] });\nreturn rows.reduce((a, b) => a + b);",
        "give it a first value, `.reduce((a, b) => …, 0)`",
    ),
    "a handle without quotes": (
        "return await results.load(res_ab12cd34);",
        'write it in quotes, results.load("res_ab12cd34")',
    ),
    "the value of a promise that failed": (
        "const got = await Promise.allSettled([demo.fail({ message: 'no' })]);\nreturn got.map((g) => g.value.id);",
        'check g.status === "fulfilled" first',
    ),
    "the way of other clients to call": (
        "return await gatemini.call_tool('demo.rows', {});",
        "write `await backend.tool({…})`",
    ),
    "a loaded result in a wrapper": (
        "const ref = await results.save([{ id: 1 }]);\nconst d = await results.load(ref);\nreturn d.data.rows.length;",
        "results.load gives the value itself, as the earlier chain got it",
    ),
    "an object given to Promise.all": (
        "const { a, b } = await Promise.all({ a: demo.echo({ n: 1 }), b: demo.echo({ n: 2 }) });\nreturn a.n;",
        "Promise.all takes one array: write `const [a, b] = await Promise.all([…, …])`",
    ),
    "an object spread in parentheses": (
        "const all = [];\nfor (const n of [1, 2]) all.push(...(await demo.echo({ rows: [n] })));\nreturn all;",
        "is an object {rows}, not an array: use (await demo.echo({ rows: [n] })).rows",
    ),
    "a part of text taken for rows": (
        "const log = (await demo.echo({ text: 'Commit: 1\\nCommit: 2' })).text;\nreturn log.slice(0, 9).map((c) => c.id);",
        'take it apart, for example `(…).split("\\n")`',
    ),
    "a tool that is not called, in parentheses": (
        "const rows = (await demo.rows).rows;\nreturn rows.length;",
        "demo.rows is the tool itself: call it, `(await demo.rows({…}))`",
    ),
    "isError of a call that throws": (
        "const r = await demo.fail({ message: 'no' });\nif (r.isError) return 0;\nreturn r.id;",
        "a call that fails throws, its result has no isError",
    ),
    "pages without end": ("for (;;) await demo.echo({ n: 1 });", "ends where that is null or missing"),
}

SILENT = {
    "text that is added up": (PRICES + "return rows.reduce((sum, r) => sum + r.n, 0);", 'r.n is text ("10", line 2), which + joins: write Number(r.n)'),
    "a sum of text in a loop": (PRICES + "let sum = 0;\nfor (const r of rows) sum += r.n;\nreturn sum;", "write Number(r.n)"),
    "text that is sorted as numbers": (
        PRICES + "return rows.sort((a, b) => b.price - a.price);",
        'b.price is text ("1,200.50", line 2) and no number, so that calculating with it gives NaN',
    ),
    "text that is compared with a date": (TIMES + "return rows.filter((r) => r.at > new Date('2026-01-01'));", "write new Date(r.at)"),
    "seconds that are taken for milliseconds": (TIMES + "return rows.map((r) => new Date(r.ts));", "write new Date(r.ts * 1000)"),
    "the cursor of the next page under another spelling": (
        "let cursor, n = 0;\ndo {\n  const page = await demo.echo({ items: [1], nextCursor: 'b' });\n  n++;\n  cursor = page.next_cursor;\n} while (cursor);\nreturn n;",
        "page.next_cursor is undefined (line 5): the result of demo.echo is an object {items, nextCursor}; did you mean nextCursor?",
    ),
    "a loop over keys": (ROWS + "const out = [];\nfor (const r in rows) out.push(r.name);\nreturn out;", "write `for (const r of …)`"),
    "a function in braces without return": (ROWS + "return rows.map((r) => { r.name });", "the function in .map (line 2) has braces and no return"),
    "a tool that is not called": ("const r = await demo.rows;\nreturn r.length;", "r is the tool demo.rows itself: call it"),
    "what is spread and not there": ("const o = await demo.echo({ id: 1 });\nreturn { id: o.id, ...o.customer };", "o.customer is undefined (line 2)"),
    "characters of a table": (
        "const r = await demo.echo({ content: 'id,name\\n1,a' });\nlet n = 0;\nfor (const row of r.content) n++;\nreturn n;",
        "the loop (line 3) goes through its characters",
    ),
    "a row that is a list": (
        "const r = await demo.echo({ rows: [[1, 'a'], [2, 'b']] });\nreturn r.rows.map((row) => row.name);",
        "an item of rows in the result of demo.echo is an array of 2 items",
    ),
    "text looked for among objects": (
        "const r = await demo.echo({ labels: [{ name: 'bug' }] });\nreturn r.labels.includes('bug');",
        "write r.labels.some((x) => x.name === …)",
    ),
    "several statements in braces without return": (
        ROWS + "return rows.map((r) => { const name = r.name; name });",
        "the function in .map (line 2) has braces and no return",
    ),
    "what allSettled gives": (
        "const got = await Promise.allSettled([demo.echo({ total: 1 })]);\nreturn got.map((g) => g.total);",
        "read .value",
    ),
    "a promise that is calculated with": ("const n = demo.echo({ n: 1 }).then((r) => r.n);\nreturn n * 2;", "write `n = await …`"),
    "text compared with a number": (PRICES + "return rows.filter((r) => r.n === 10).length;", 'r.n is text ("10", line 2), so that === with a number is never true'),
    "a number compared with text": (ROWS + "return rows.filter((r) => r.id === '1').length;", "so that === with text is never true"),
    "what a helper function returns": (
        "const name = async (id) => (await demo.echo({ id, full: 'x' })).name;\nreturn [await name(1), await name(2)];",
        "(await demo.echo({ id, full: 'x' })).name is undefined (line 1)",
    ),
    "numbers that are sorted as text": ("return [10, 9, 1].sort();", "write `.sort((a, b) => a - b)`"),
    "a map that nothing waits for": (
        "const out = [];\n[1, 2].map(async (n) => { out.push(await demo.echo({ n })); });\nreturn out;",
        ".map (line 2) does not wait for an async function",
    ),
    "a member of one item": (
        "const r = (await demo.rows({ n: 2 }))[0];\nreturn r.name.first;",
        "r.name is text (\"row 0\")",
    ),
    "the largest of an array": (ROWS + "return Math.max(rows.map((r) => r.score));", "write `Math.max(...rows.map(…))`"),
    "a comparison that sorts": (ROWS + "return rows.sort((a, b) => a.score < b.score);", "write `b.score - a.score`"),
}  # fmt: skip

RIGHT = [
    PRICES + "return rows.reduce((sum, r) => sum + Number(r.n), 0);",
    PRICES + "return rows.map((r) => `${r.sku}: ` + r.n).join();",
    PRICES + "return rows.filter((r) => r.n > 9).length;",
    TIMES + "return rows.map((r) => new Date(r.ts * 1000)).length;",
    TIMES + "return rows.filter((r) => r.at > '2026').length;",
    "const page = await demo.echo({ items: [1], nextCursor: 'b' });\nreturn page.nextCursor ?? page.next_cursor;",
    "const page = await demo.echo({ items: [1], nextCursor: 'b' });\nif (page.more) return 1;\nreturn 2;",
    "const r = await demo.echo({ content: 'a,b\\nc,d' });\nreturn [...r.content].length;",
    "const r = await demo.echo({ a: { b: 1 } });\ntry { return r.data.items; } catch { return r.a.b; }",
    "const page = await demo.echo({ items: [1], next_cursor: 'abc', limit: 1 });\nreturn page.items.length;",
    "const page = await demo.echo({ items: [1], next_cursor: null });\nreturn page.items.length;",
    "const r = await demo.echo({ labels: ['bug'], name: 'debug' });\nreturn r.labels.includes('bug') && r.name.includes('bug');",
    "const [a] = await Promise.allSettled([demo.echo({ n: 1 })]);\nreturn a.value.n;",
    ROWS + "return rows.sort((a, b) => (a.score < b.score ? 1 : -1)).length;",
    ROWS + "return rows.filter((r) => r.id === 1 && r.name === 'x').length;",
    "const get = async (id) => (await demo.echo({ id })).note;\nreturn [(await get(1)) ?? 0, (await get(2)) ?? 0];",
    ROWS + "return rows.map((r) => r.id).sort();",
    "return '[done] ' + [2, 10].sort().join();",
    ROWS + "return Math.max(...rows.map((r) => r.id));",
    ROWS + "for (const at in rows) console.log(at.length);\nreturn 1;",
    ROWS + "rows.map((r) => { console.log(r.id) });\nreturn 1;",
]


@pytest.mark.parametrize("title", FAILING)
async def test_a_program_that_fails_is_told_what_to_change(app: App, title: str) -> None:
    code, said = FAILING[title]
    text, is_error, _ = await answer(app, code)
    assert is_error, text
    assert said in text


SILENT |= {
    "an object in a template": (
        "const r = await demo.echo({ a: 1 });\nreturn `it is ${r}`;",
        'writes an object as "[object Object]": r is an object {a}; take a member of it, or write JSON.stringify(r)',
    ),
    "an object in the text of a call": (
        "const r = await demo.echo({ a: 1 });\nawait demo.echo({ text: `# ${r}` });\nreturn 1;",
        'demo.echo got "text" with an object written as text',
    ),
    "the status of a settled promise": (
        "const got = await Promise.allSettled([demo.rows({ n: 1 })]);\nreturn got.filter((g) => g.status === 'resolved').length;",
        'is "fulfilled" or "rejected", never "resolved" (line 2)',
    ),
    "an assignment in a filter": (
        ROWS + "return rows.filter((r) => r.name = 'x').length;",
        "write `r.name === …`",
    ),
    "the most of nothing": (
        "const { rows } = await demo.echo({ rows: [] });\nreturn Math.max(...rows);",
        "gives no finite number where the list is empty",
    ),
    "the mean of nothing": (
        "const { rows } = await demo.echo({ rows: [] });\nreturn { mean: rows.reduce((a, b) => a + b, 0) / rows.length };",
        "gives no finite number where the list is empty",
    ),
    "a date in a variable": (
        TIMES + "const since = new Date('2026-01-01');\nreturn rows.filter((r) => r.at > since).length;",
        "compared with a Date is never true: write new Date(r.at)",
    ),
    "a day as people write it": (
        TIMES + "return rows.filter((r) => r.at > '01.02.2026').length;",
        "compared letter by letter: write 01.02.2026 as YYYY-MM-DD",
    ),
    "an error that nobody sees": (
        "let r = null;\ntry { r = await demo.fail({ message: 'no' }); } catch (e) {}\nreturn r;",
        "an empty catch took the error of demo.fail",
    ),
    "MCP content read with care": (
        "const r = await demo.echo({ id: 1, title: 'x' });\nreturn (r.content?.[0]?.text ?? '').includes('x');",
        "nothing was taken from the result of demo.echo: r.content (line 2) is undefined, the result is an object {id, title}",
    ),
    "a list under another name, read with care": (
        "const r = await demo.echo({ products: [{ id: 1 }], total: 1 });\nreturn r?.items?.map((x) => x.id) ?? [];",
        "r?.items (line 2) is undefined, the result is an object {products, total}",
    ),
    "members of text, read with care": (
        "const t = await demo.text({ n: 5 });\nreturn t.files ?? t.modified ?? [];",
        "t.files (line 2) is undefined, the result is text (",
    ),
    "cells of text that are summed": (
        "const { csv } = await demo.echo({ csv: 'a,1.5\\nb,2' });\nconst rows = csv.split('\\n').map((l) => l.split(','));\nreturn { sum: rows.reduce((s, r) => s + r[1], 0) };",
        "r[1] (line 3) is text, which + joins to the 0: write Number(r[1])",
    ),
    "a count of nothing": (
        "const r = await demo.echo({ rows: [1] });\nreturn { hits: r?.results?.length || 0 };",
        "nothing was taken from the result of demo.echo",
    ),
    "pages that end by a member that is not there": (
        "const all = [];\nlet more = true, cursor;\nwhile (more) {\n  const r = await demo.echo({ items: [1], next_cursor: 'b' });\n  all.push(...r.items);\n  cursor = r.next_cursor;\n  more = r.has_more;\n}\nreturn all.length;",
        'there is more: r.has_more (line 7) is undefined, and next_cursor in the last result of demo.echo is "b"',
    ),
    "a character of text": (
        "const log = (await demo.echo({ text: 'Commit: 1' })).text;\nconst last = log[0];\nreturn last.id;",
        'last is one character of text ("C")',
    ),
    "an object that is made text and taken apart": (
        "const f = await demo.echo({ content: 'a\\nb' });\nreturn String(f).split('\\n').length;",
        '`String(f)` (line 2) writes an object as "[object Object]": f is an object {content}: f.content is text',
    ),
    "an object compared with text": (
        "const r = await demo.echo({ rows: [{ user: { login: 'mara' } }] });\nreturn r.rows.filter((x) => x.user === 'mara').length;",
        "x.user is an object {login} (line 2), so that === with text is never true",
    ),
    "text in another case": (
        "const r = await demo.echo({ rows: [{ status: 'open' }, { status: null }] });\nreturn r.rows.filter((x) => x.status === 'Open').length;",
        'x.status is never "Open" (line 2): it is written "open"',
    ),
    "a sum of what allSettled gives": (
        "const got = await Promise.allSettled([demo.echo({ total: 1 })]);\nreturn got.reduce((sum, g) => sum + g.total, 0);",
        "read .value",
    ),
    "a tool that is not there, and a catch": (
        "let found = [];\ntry { found = await demo.list_all({}); } catch (e) { found = []; }\nreturn found.length;",
        "the code went on without demo.list_all: backend 'demo' has no tool 'list_all'",
    ),
    "arguments that are refused, and a catch": (
        "let sum = 0;\nfor (const a of ['x', 'y']) { try { sum += (await demo.add({ a, b: 1 })).sum; } catch { continue; } }\nreturn sum;",
        'the code went on without demo.add: "a" must be number, got string "x", and 1 more',
    ),
    "text and an object in one list": (
        "const r = await demo.echo({ blocks: ['shot', { type: 'image' }] });\nreturn r.blocks.image;",
        "r.blocks is an array [text, object {type}]",
    ),
    "the size of an array": (ROWS + "return { n: rows.size };", "with rows.length"),
}


@pytest.mark.parametrize("title", SILENT)
async def test_a_program_that_runs_and_is_wrong_gets_a_note(app: App, title: str) -> None:
    code, said = SILENT[title]
    text, is_error, _ = await answer(app, code)
    assert not is_error, text
    assert said in text


RIGHT += [
    "const { rows } = await demo.echo({ rows: [] });\nreturn { n: rows.reduce((a, b) => a + b, 0), most: Math.max(0, ...rows) };",
    "const got = await Promise.allSettled([demo.rows({ n: 1 })]);\nreturn got.filter((g) => g.status === 'fulfilled').length;",
    ROWS + "return rows.filter((r) => (r.seen = true)).filter((r) => r.id >= 1).length;",
    "let r = null;\ntry { r = (await demo.rows({ n: 1 })).length; } catch {}\nreturn r;",
    "try { return await demo.list_all({}); } catch (e) { return e.message; }",
    "const r = await demo.echo({ id: 1 });\nreturn r.errors ?? [];",
    "const { n } = await demo.echo({ n: [1, 2] });\nreturn { sum: n.reduce((s, x) => s + x, 0), zip: '01234' };",
    "const r = await demo.echo({ id: 1 });\nreturn { next: r.next_cursor ?? null };",
    "const r = await demo.echo({ items: [] });\nreturn r.items?.map((x) => x.id) ?? [];",
    "const r = await demo.echo({ rows: [{ s: 'open' }] });\nreturn r.rows.filter((x) => x.s === 'open' || x.s === 'Open').length;",
    "const r = await demo.echo({ id: 1, name: 'x' });\nreturn `${r.id}: ${r.name}`;",
    "let at, n = 0;\ndo { const r = await demo.echo({ items: [1], next: at ? null : 'b' }); n++; at = r.next; } while (at);\nreturn n;",
    TIMES
    + "const since = new Date('2026-01-01');\nreturn rows.filter((r) => new Date(r.at) > since).length;",
]


@pytest.mark.parametrize("code", RIGHT)
async def test_a_program_that_is_right_gets_no_note(app: App, code: str) -> None:
    text, is_error, _ = await answer(app, code)
    assert not is_error, text
    assert len(text.partition("\n[console]")[0].splitlines()) == 1, text


async def test_a_fault_in_a_hint_costs_neither_the_value_nor_the_error(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("a hint")

    monkeypatch.setattr("gatemini.chain.run.slips", broken)
    monkeypatch.setattr("gatemini.chain.failure.hint", broken)
    monkeypatch.setattr("gatemini.chain.failure.missing_members", broken)
    text, is_error, _ = await answer(app, "return 6 * 7;")
    assert (text, is_error) == ("42", False)
    text, is_error, _ = await answer(app, "return nobody.knows;")
    assert is_error
    assert text.startswith("ReferenceError: nobody is not defined")
    assert [record.getMessage() for record in caplog.records].count("hints could not be written") == 3


async def test_calls_that_were_never_sent_are_counted_beside_a_large_value(app: App) -> None:
    code = (
        "let n = 0;\nfor (let i = 0; i < 300; i++) try { await demo[`none_${i % 30}`]({}); } catch (e) { n += 1; }\n"
        "return [n, 'x'.repeat(5e6)];"
    )
    text, is_error, _ = await answer(app, code)
    assert not is_error
    assert "the code went on without demo.none_0" in text
