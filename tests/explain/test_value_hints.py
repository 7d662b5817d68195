"""A tool's result that is not what the code takes it for is described in the hint."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.explain.error_facts import ErrorFacts, HintContext, ProgramFacts
from gatemini.explain.hints import hint
from gatemini.explain.promise_hints import promise_notes
from gatemini.explain.results.call_values import MOST_READ, described, find
from gatemini.explain.value_hints import nothing_returned
from gatemini.output.json.javascript_json import dumps

RESULTS: dict[tuple[str, str], Any] = {
    ("demo", "list"): [
        {"id": 1, "title": "t", "user": None},
        {"id": 2, "title": "u", "user": {"login": "x"}},
    ],
    ("demo", "search"): {"total_count": 1, "items": [{"path": "a"}]},
    ("demo", "text"): "one\ntwo",
    ("demo", "nothing"): None,
    ("demo", "held"): {"dry_run": True},
    ("demo", "file"): {"content": '{"offices": [1]}'},
    ("demo", "folder"): {"content": "a.md\nb.md"},
    ("demo", "query"): "[{'id': 1, 'name': None}]",
    ("demo", "orders"): {"orders": [{"id": 1, "customer_id": 7}]},
    ("files-eu", "get-row"): {"row": {"name": "n"}},
}
LIST = "const r = await demo.list({ n: 1 });\n"
SEARCH = "const r = (await demo.search({ q: 1 })) as any;\n"
TEXT = 'let r: string = await demo["text"]({});\n'


def last_result(backend: str, tool: str) -> str | None:
    value = RESULTS.get((backend, tool), ...)
    return None if value is ... else dumps(value)


CONTEXT = HintContext(backends={"demo": "demo", "files_eu": "files-eu"}, last_result=last_result)


def said(message: str, source: str, at: str) -> str:
    """The hint for an error at the last `at` in the code."""
    before = source[: source.rindex(at)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return hint(ErrorFacts("TypeError", message, line, column, source), CONTEXT) or ""


@pytest.mark.parametrize(
    ("source", "member", "expected"),
    [
        (LIST + "return r.data.map(f);", "map", "r.data is undefined: r is an array of 2 objects {id, title, user}: use r itself"),
        (LIST + "return r.title.length;", "length", "r.title is undefined: r is an array of 2 objects {id, title, user}: its items have .title"),
        (LIST + "return r[0].name.first;", "first", "r[0].name is undefined: r[0] is an object {id, title, user}"),
        (LIST + "return r[7].id;", "id", "r[7] is undefined: r is an array of 2 objects {id, title, user}"),
        (SEARCH + "return r.results.length;", "length", "r.results is undefined: r is an object {total_count, items}; did you mean r.items?"),
        (SEARCH + "return r.item.length;", "length", "r.item is undefined: r is an object {total_count, items}; did you mean r.items?"),
        (SEARCH + "return r.author.name;", "name", "r.author is undefined: r is an object {total_count, items}"),
        (TEXT + "return r.content.length;", "length", 'r.content is undefined: r is text ("one\\ntwo"); results arrive as their value, not as MCP content: use r itself'),
        ("const { item } = await demo.search({});\nreturn item.length;", "length", "item is undefined: the result is an object {total_count, items}; did you mean items?"),
        ("const { total_count: n, x } = await demo.search({});\nreturn x.length + n;", "length", "x is undefined: the result is an object {total_count, items}"),
        (LIST + "for (const row of r) log(row.owner.id);", "id", "row.owner is undefined: row is an object {id, title, user}"),
        (SEARCH + "return r.items.map((hit: any) => hit.file.size);", "size", "hit.file is undefined: hit is an object {path}"),
        ("const r = await files_eu['get-row']({});\nreturn r.row.id.x;", "x", "r.row.id is undefined: r.row is an object {name}"),
        ("const c = await demo.file({});\nreturn c.offices.map(f);", "map", "c.offices is undefined: c is an object {content}; c.content is text: it holds JSON: use JSON.parse(c.content)"),
        ("const { orders } = await demo.orders({});\nconst o = orders[0];\nreturn o.customer.name;", "name", "o.customer is undefined: o is an object {id, customer_id}; did you mean o.customer_id?"),
        ("const c = await demo.held({});\nreturn c.user.id;", "id", "c.user is undefined: c is {dry_run: true}, the answer of a dry run to a call it held"),
    ],
)  # fmt: skip
def test_a_member_that_a_result_has_not_is_answered_with_what_it_is(source, member, expected):
    assert said(f"cannot read property '{member}' of undefined", source, member) == expected


def test_a_member_that_is_null_in_the_result_is_no_misspelling():
    found = said("cannot read property 'login' of null", LIST + "return r[0].user.login;", "login")
    assert found == "r[0].user is null in this result: write r[0].user?.login"


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [
        (TEXT + "r.map(f);", "map", 'r is text ("one\\ntwo"), not an array: take it apart, for example `r.split("\\n")`'),
        ("const r = await demo.folder({});\nr.filter(f);", "filter", 'r is an object {content}, not an array: r.content is text: take it apart, for example `r.content.split("\\n")`'),
        ("const r = await demo.query({});\nr.map(f);", "map", 'r is text ("[{\'id\': 1, \'name\': None}]"), not an array: it holds a Python literal (single quotes, None), not JSON: ask the tool for JSON'),
        (SEARCH + "r.filter(f);", "filter", "r is an object {total_count, items}, not an array: use r.items"),
        (LIST + "r.split(',');", "split", "r is an array of 2 objects {id, title, user}, not text"),
        ("const r = await files_eu['get-row']({});\nr.forEach(f);", "forEach", "r is an object {row}, not an array: Object.entries(r) gives its members"),
    ],
)  # fmt: skip
def test_a_method_of_another_kind_of_value_is_answered_with_the_kind(source, at, expected):
    assert said("not a function", source, at) == expected


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [
        (SEARCH + "for (const x of r) log(x);", "r) log", "r is an object {total_count, items}, not an array: use r.items"),
        (SEARCH + "const [first] = r;", "[first]", "r is an object {total_count, items}, not an array: use r.items"),
        (SEARCH + "log(...r.hits);", "r.hits", "r.hits is undefined: r is an object {total_count, items}; did you mean r.items?"),
        ("for (const x of await demo.search({ a: 1 })) log(x);", "search", "the result is an object {total_count, items}, not an array: use .items"),
        ("return [...await demo.search({})];", "search", "the result is an object {total_count, items}, not an array: use .items"),
        ("return Promise.all(await demo.search({}));", "search", "the result is an object {total_count, items}, not an array: use .items"),
        (LIST + "for (const [k, v] of r) log(k);", "r) log", "an item of r is an object {id, title, user}, not an array: take its members by name, as in `const { … }`, or give it a name of its own"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_iterable_is_described(source, at, expected):
    assert said("value is not iterable", source, at) == expected


@pytest.mark.parametrize(
    "source",
    [
        "const r = await demo.list({});\nconst f = () => { const r = 1; };\nreturn r.data.map(f);",
        "const r = other();\nreturn r.data.map(f);",
        "function r() {}\nreturn r.data.map(f);",
        "const r = await unknown.list({});\nreturn r.data.map(f);",
        "const r = await demo.never_called({});\nreturn r.data.map(f);",
        "const [r] = await Promise.all([demo.list({})]);\nreturn r.data.map(f);",
    ],
)
def test_uncertain_values_get_no_hint(source):
    assert "return Object.keys(r) to see" in said("cannot read property 'map' of undefined", source, "map")


def test_an_existing_path_is_not_blamed():
    assert find("r.items", SEARCH, CONTEXT).rest == ()
    assert "items" not in said("cannot read property 'map' of undefined", LIST + "r[0].title.map(f)", "map")


def test_a_tool_that_was_not_called_is_named_wherever_its_result_is_used():
    code = "const r = await demo.list;\n"
    told = "r is the tool demo.list itself: call it, `await demo.list({…})`"
    assert said("cannot read property 'm' of undefined", code + "return r.n.m;", "m") == told
    assert said("not a function", code + "return r.map(f);", "map") == told
    assert said("value is not iterable", code + "for (const x of r) f(x);", "r) f") == told
    facts = ProgramFacts(returned=[(2, 8, "r.n")], source=code + "return r.n;")
    assert nothing_returned(facts, CONTEXT, logged=False) == f"the code returned undefined: {told}"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "an empty array"),
        ([1, 2], "an array of 2 items"),
        (["a"], "an array of 1 text"),
        ([{"a": 1}], "an array of 1 object {a}"),
        ({}, "an empty object"),
        ({str(i): i for i in range(9)}, "an object {0, 1, 2, 3, 4, 5, 6, 7, …}"),
        ("", "an empty text"),
        ("x" * 50, 'text ("' + "x" * 37 + '...")'),
        (5, "5"),
        (None, "null"),
    ],
)
def test_values_are_described_in_a_few_words(value, words):
    assert described(value) == words


def test_a_very_long_result_is_described_by_its_kind():
    context = HintContext(backends={"demo": "demo"}, last_result=lambda *_: "[" + "1," * MOST_READ + "1]")
    assert str(find("r", LIST, context)) == "r is an array"


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((2, 8, "r.items"), "the code returned undefined: `r.items` on line 2 is undefined: r is an array of 2 objects {id, title, user}: use r itself"),
        ((2, 8, "f(r)"), "the code returned undefined: `f(r)` on line 2 is undefined"),
        ((2, 1, ""), "the code returned no value: `return` is alone on line 2; put the value on the same line"),
        ((2, 8, "undefined"), "the code returned no value: end with `return …`, or with an expression"),
    ],
)  # fmt: skip
def test_an_undefined_value_names_the_expression_that_gave_it(returned, expected):
    facts = ProgramFacts(returned=[returned], source=LIST + "return …")
    assert nothing_returned(facts, CONTEXT, logged=False) == expected


@pytest.mark.parametrize(
    ("source", "text", "left_open", "notes"),
    [
        ("return xs.join();", "a [object Promise]", False, ["a promise was written as text"]),
        ("\nreturn xs.filter(async (x) => f(x));", "[]", False, [".filter with an async function (line 2)"]),
        ("xs.forEach(async (x) => f(x));", "null", True, [".forEach (line 1) does not wait"]),
        ("xs.forEach(async (x) => f(x));", "null", False, []),
        ("return xs.filter((x) => x);", "[]", True, []),
    ],
)
def test_missing_awaits_are_noted(source, text, left_open, notes):
    found = promise_notes(ProgramFacts(source=source), text, left_open=left_open)
    assert len(found) == len(notes)
    assert all(part in note for part, note in zip(notes, found, strict=True))


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        ("const out = ids.map(async (id) => id);\nreturn out.filter((x) => x);", False),
        ("let a = [1, 2].map(async (id) => id);\nreturn a[0].id;", False),
        ("const out = rows.items().flatMap(async (id) => id);\nreturn out.length;", False),
        ("const out = ids.map(async (id) => id);\nreturn await Promise.all(out);", True),
        ("const out = ids.map(async (id) => id);\nreturn Promise.allSettled([...out, other]);", True),
        ("const out = ids.map(async (id) => id);\nfor await (const x of out) console.log(x);", True),
        ("const out = await Promise.all(ids.map(async (id) => id));\nreturn out;", True),
    ],
)
def test_an_array_of_promises_that_nothing_awaits_is_noted(source, waits):
    notes = promise_notes(ProgramFacts(source=source), "1", left_open=True)
    assert [note for note in notes if "array of promises" in note] == ([] if waits else notes)
    assert bool(notes) is not waits


@pytest.mark.parametrize(
    ("source", "is_noted"),
    [
        ('"const r = 1;\\nreturn r;"', True),
        ("'await demo.echo({})';", True),
        ('"just a text"', False),
        ('return "await " + "it";', False),
    ],
)
def test_code_sent_as_one_string_is_noted(source, is_noted):
    assert (
        any("one string" in note for note in promise_notes(ProgramFacts(source=source), "x", left_open=False))
        is is_noted
    )


def test_a_method_of_numbers_on_text_and_a_null_member_are_named_as_such():
    assert said("not a function", TEXT + "return r.toFixed(2);", "toFixed").endswith(
        ", not a number: write Number(r).toFixed(…)"
    )
    spread = LIST + "return [...r[0].user];"
    assert (
        said("cannot read property 'Symbol.iterator' of null", spread, "r[0].user")
        == "r[0].user is null in this result: write (r[0].user ?? [])"
    )


def test_an_argument_that_was_undefined_is_traced_to_the_result_it_came_from():
    source = "const { orders } = await demo.orders({});\nconst o = orders[0];\nawait demo.get({ customer_id: o.customerId });"
    message = 'demo.get was not called: required "customer_id" is missing'
    error = ErrorFacts("ToolError", message, 3, 12, source, tool="demo.get", given="required: customer_id")
    assert hint(error, CONTEXT) == (
        "customer_id got o.customerId, which is undefined: o is an object {id, customer_id}; did you mean o.customer_id? required: customer_id"
    )
