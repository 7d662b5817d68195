"""A member of the awaited value read on the promise: an error that says where `await` goes, never a silent undefined."""

from collections.abc import AsyncIterator

import pytest

from fixtures.running import answer, running_app
from gatemini.app import App

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("await")) as running:
        yield running


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("const r = demo.echo({ id: 7 }); return r.id;", "read as .id"),
        ("const { id } = demo.echo({ id: 7 }); return id;", "read as .id"),
        ("const rows = demo.rows({ n: 3 }); return rows[0];", "read as .0"),
        ("const rows = demo.rows({ n: 3 }); return rows.length;", "read as .length"),
        ("return demo.rows({ n: 3 }).map((r) => r.id);", "read as .map"),
        ("for (const x of demo.rows({ n: 3 })) {} return 1;", "looped over"),
        ("for await (const x of demo.rows({ n: 3 })) {} return 1;", "looped over"),
        ("return [...demo.rows({ n: 2 })];", "looped over"),
        ("return `${demo.echo({ a: 1 })}`;", "used as text"),
        ("const r = demo.echo({ id: 7 }); if (r.id === 7) return 'a'; return 'b';", "read as .id"),
    ],
)
async def test_using_a_promise_as_its_value_is_an_error_that_names_await(
    app: App, code: str, used: str
) -> None:
    text, failed, _ = await answer(app, code)
    assert failed
    assert used in text
    assert "put `await` in front of the call" in text
    assert "no answer in time" not in text


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("const p = demo.echo({ id: 7 }); return p instanceof Promise && (await p.catch(() => 0)).id;", "7"),
        ("const p = demo.echo({ a: 1 }); return (await p.finally(() => 0)).a;", "1"),
        ("const p = demo.echo({ a: 1 }); return (await p.then((r) => r.a));", "1"),
        ("return (await Promise.all([demo.echo({ a: 1 }), 2]))[0].a;", "1"),
        ("return (await Promise.race([demo.echo({ a: 1 }), new Promise(() => {})])).a;", "1"),
        (
            "const p = demo.echo({ a: 1 }); p.constructor; p.toString; return typeof p.hasOwnProperty;",
            "function",
        ),
        ("return { nested: demo.echo({ a: 1 }) };", '{"nested":{"a":1}}'),
        ("return (await Promise.allSettled([demo.echo({ a: 1 })]))[0].status;", "fulfilled"),
    ],
)
async def test_awaiting_storing_and_chaining_a_promise_still_works(app: App, code: str, value: str) -> None:
    text, failed, _ = await answer(app, code)
    assert not failed, text
    assert text.splitlines()[0] == value
