"""Timers and the standard helpers as the code sees them, and the errors for what is not there."""

from __future__ import annotations

import pytest

from gatemini_sandbox.guests.step_reader import Reader

pytestmark = pytest.mark.anyio


async def test_timers_run_in_order_of_time_then_age_with_jobs_between(run):
    code = """
        const seen = [];
        const done = new Promise(r => setTimeout(() => { seen.push("last"); r() }, 8));
        setTimeout(() => seen.push("two"), 2);
        setTimeout(() => { seen.push("a"); Promise.resolve().then(() => seen.push("a job")) }, 0);
        setTimeout((x, y) => seen.push(x + y), 0, "b", "c");
        const gone = setTimeout(() => seen.push("never"), 1); clearTimeout(gone); clearTimeout(undefined);
        queueMicrotask(() => seen.push("job"));
        await done; return seen"""
    assert await run.value(code) == ["job", "a", "a job", "bc", "two", "last"]


async def test_very_many_timers_keep_their_order_of_time_then_age_whatever_code_overwrites(run):
    # The clock goes on while they are made: only of two with the same delay the older is certainly due first.
    code = """
        Array.prototype.push = Map.prototype.get = Map.prototype.set = Map.prototype.delete = () => { throw 1 };
        const most = 20000, seen = new Uint32Array(most), ids = new Uint32Array(most); let n = 0;
        Object.defineProperty(Array.prototype, "0", { set() { throw 2 }, get() { throw 3 } });
        for (let i = 0; i < most; i++) ids[i] = setTimeout((i) => { seen[n++] = i }, i % 2 ? 0 : 60, i);
        for (let i = 0; i < most; i += 5) clearTimeout(ids[i]);
        while (n < 16000) await sleep(20);
        const last = new Int32Array(2).fill(-1);
        for (let k = 0; k < n; k++) {
          const i = seen[k];
          if (i < last[i % 2]) return [k, i, last[i % 2]];
          last[i % 2] = i;
        }
        return n"""
    assert await run.value(code) == 16000


async def test_timers_that_call_nothing_leave_nothing_to_be_read(run, monkeypatch):
    read = []
    real = Reader.step
    monkeypatch.setattr(Reader, "step", lambda self, raw: read.append(len(raw.outboxes)) or real(self, raw))
    code = """let n = 0;
        for (let i = 0; i < 300; i++) setTimeout(() => { n++; if (i % 100 === 50) demo.echo({ i }) }, 0);
        await sleep(5);
        return n"""
    assert await run.value(code) == 300
    assert len(run.calls) == 3
    assert max(read) <= 4  # one for each call, and the last


async def test_one_timer_too_many_is_an_error_that_names_the_limit(run):
    code = "let n = 0; try { for (;;) { setTimeout(() => {}, 1e6); n++ } } catch (e) { return [n, e.name, e.message] }"
    assert await run.value(code) == [100_000, "LimitError", "a chain may have 100000 timers (limit.timers)"]


NO_LOCALE = " took no notice of its locale and options: there is no Intl here (time zone UTC); format by hand"
ENDS = {
    'setInterval(() => {}, 10); setTimeout(() => demo.write({}), 5000); return "done"': (
        "done",
        ["2 timers were still pending at the end and dropped"],
    ),
    'setTimeout(() => { throw new Error("late") }, 0); await sleep(2); return 1': (
        "1",
        ["a timer callback threw: Error: late"],
    ),
    'queueMicrotask(() => { throw new Error("job") }); await null; return 1': (
        "1",
        ["a rejected promise was not handled: Error: job"],
    ),
    """for (let n = 0; n < 120000; n++) clearTimeout(setTimeout(() => n, 1e6));
        let again = 0;
        const beat = setInterval(() => { if (++again === 3) clearInterval(beat); }, 4);
        await sleep(200);
        return again""": ("3", []),
    "const t = Date.now(); await new Promise(r => setTimeout(r, 20)); await sleep(5); return Date.now() - t >= 24": (
        "true",
        [],
    ),
    "new Date(0).toLocaleDateString('de-DE'); return (1e3).toLocaleString('de')": (
        "1000",
        ["toLocaleDateString" + NO_LOCALE, "toLocaleString" + NO_LOCALE],
    ),
    "new Date(0).toLocaleDateString(); return (1e3).toLocaleString()": ("1000", []),
}


@pytest.mark.parametrize("code", ENDS)
async def test_timers_and_locales_end_with_this_value_and_these_notes(run, code):
    end = await run(code)
    assert (end.text, end.notes, run.calls) == (*ENDS[code], [])


@pytest.mark.parametrize("name", ["require", "fetch", "process", "window", "Intl", "nope"])
async def test_an_unknown_global_is_undefined_and_reported_to_the_host(run, name):
    assert await run.value(f"return typeof {name}") == "undefined"
    error = (await run.error(f"return {name}.x")).error
    assert (error.name, error.message, error.hint) == ("ReferenceError", f"{name} is not defined", None)


async def test_the_guest_reads_the_clock_of_the_host(run):
    assert await run.value("return Date.now()", now_ms=86_400_000.0) - 86_400_000 < 5000
    assert await run.value("return new Date().getTimezoneOffset()") == 0
    assert await run.value("return performance.now() >= 0 && performance.now() < 5000")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (
            "new URL('https://u:p@Ex.com:8443/a/../b?x=1&y=%20#h').href",
            "https://u:p@ex.com:8443/b?x=1&y=%20#h",
        ),
        ("new URL('https://ex.com:443').port", ""),
        ("new URL('../c?d', 'https://e.com/a/b').href", "https://e.com/c?d"),
        ("new URL('//o.com/x', 'https://e.com').href", "https://o.com/x"),
        ("new URL('https://e.com/ä b').pathname", "/%C3%A4%20b"),
        ("new URL('https://e.com?q=a+b').searchParams.get('q')", "a b"),
        (
            "(() => { const u = new URL('https://e.com'); u.searchParams.set('a', 'b c'); return u.href })()",
            "https://e.com/?a=b+c",
        ),
        (
            "(() => { const u = new URL('https://e.com/?a=1'); u.search = '?z=2'; return u.searchParams.get('z') })()",
            "2",
        ),
        ("URL.canParse('nope')", False),
        (
            "[...new URLSearchParams({ a: 1, b: 'ü' })].join('|') + new URLSearchParams({ b: 'ü' })",
            "a,1|b,üb=%C3%BC",
        ),
        ("JSON.stringify({ u: new URL('https://e.com/x') })", '{"u":"https://e.com/x"}'),
        ("new TextDecoder().decode(new TextEncoder().encode('ä€😀'))", "ä€😀"),
        ("new TextDecoder().decode(new Uint8Array([0xff, 0x61, 0xe2, 0x82]))", "\ufffda\ufffd"),
        ("atob(btoa('hello'))", "hello"),
        ("Buffer.from('hi').toString('base64')", "aGk="),
        ("Buffer.from('aGk=', 'base64').toString()", "hi"),
        ("Buffer.from('6869', 'hex').toString()", "hi"),
        ("Buffer.concat([Buffer.from('a'), Buffer.from('b')]).toString('hex')", "6162"),
        ("structuredClone({ a: [new Date(0), new Map([[1, 2]])] }).a[1].get(1)", 2),
        (
            "(() => { const o = {}; o.o = o; const c = structuredClone(o); return c.o === c && c !== o })()",
            True,
        ),
        (
            "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())",
            True,
        ),
        ("crypto.getRandomValues(new Uint8Array(8)).length", 8),
        ("typeof process", "undefined"),
        ("typeof Deno", "undefined"),
        ("typeof std + typeof os + typeof print + typeof scriptArgs", "undefined" * 4),
    ],
)
async def test_a_standard_helper_gives_this_value(run, code, value):
    assert await run.value(f"return {code}") == value


@pytest.mark.parametrize(
    ("words", "options", "order"),
    [
        (["b", "C", "a", "B", "A"], "", ["a", "A", "b", "B", "C"]),
        (
            ["zebra", "Äpfel", "résumé", "resume", "Résumé"],
            "",
            ["Äpfel", "resume", "résumé", "Résumé", "zebra"],
        ),
        (["item10", "item2", "Item1"], "", ["Item1", "item10", "item2"]),
        (["item10", "item2", "Item1"], ", undefined, { numeric: true }", ["Item1", "item2", "item10"]),
        (["v1.10", "v1.9", "v01.9"], ", 'en-u-kn-true'", ["v1.9", "v01.9", "v1.10"]),
        (["ab", "a-b", "a b", "_x", "1", ""], "", ["", "_x", "1", "a b", "a-b", "ab"]),
        (["日本", "ñ", "o", "n", "é", "e"], "", ["e", "é", "n", "ñ", "o", "日本"]),
    ],
)
async def test_words_are_sorted_by_locale_order(run, words, options, order):
    # What Node gives with its full ICU.
    assert await run.value(f"return {words}.sort((a, b) => a.localeCompare(b{options}))") == order


async def test_words_compare_by_the_requested_sensitivity(run):
    pairs = "[['a', 'A'], ['a', 'á'], ['a', 'b'], ['é', 'e\u0301']]"
    told = {
        "base": [0, 0, -1, 0],
        "accent": [0, -1, -1, 0],
        "case": [-1, 0, -1, 0],
        "variant": [-1, -1, -1, 0],
    }
    for sensitivity, expected in told.items():
        code = f"return {pairs}.map(([a, b]) => a.localeCompare(b, undefined, {{ sensitivity: '{sensitivity}' }}))"
        assert await run.value(code) == expected, sensitivity


ABSENT = {"fetch": "there is no network here", "import": "there are no modules"}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (
            "try { fetch('x') } catch (e) { return [e.name, e.message, e instanceof ReferenceError] }",
            ["ReferenceError", "fetch is not defined: there is no network here", True],
        ),
        (
            "try { fetch = 1 } catch (e) { return e.message }",
            "fetch is not defined: there is no network here",
        ),
        (
            "return await __import('fs').catch((e) => e.message)",
            "could not load module 'fs': there are no modules",
        ),
        ("return Object.keys(globalThis).includes('fetch')", False),
    ],
)
async def test_a_caught_error_of_an_absent_name_has_the_substitute_in_its_text(run, code, value):
    assert await run.value(code, absent=ABSENT) == value


async def test_an_uncaught_error_is_shown_once(run):
    error = (await run.error("fetch('x')", absent=ABSENT)).error
    assert (error.message, error.hint) == ("fetch is not defined", "there is no network here")
    assert (error.line, error.column) == (1, 1)


async def test_eval_and_function_reach_nothing_of_the_host(run):
    value = await run.value(
        """
        const names = [...new Set([...Object.getOwnPropertyNames(globalThis), ...Function("return Object.getOwnPropertyNames(globalThis)")()])];
        return [eval("1 + 1"), (0, eval)("typeof process"), new Function("a", "return a")(3), names.filter(n => /std|os$|wasi|host/.test(n))]"""
    )
    assert value == [2, "undefined", 3, []]
