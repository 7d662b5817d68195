"""Hostile programs one after another and beside each other on one sandbox: each ends as it says and changes nothing outside.

Those of `escapes/` are looked at one by one; here what counts is what others see. Above: nothing.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fixtures.guest import Runner
from fixtures.modes import MODES
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Done, Failed

pytestmark = pytest.mark.anyio

SEEN = """
const own = Reflect.ownKeys;
const looked = [globalThis, Object, Function, Promise, Array, Map, RegExp, Date, String, Error, JSON, Math, Reflect].map((o) => [
  own(o).map((k) => String(k) + typeof Object.getOwnPropertyDescriptor(o, k).value).join(),
  typeof o === "function" && o.prototype ? own(o.prototype).map(String).join() : "",
]);
const fresh = [Math.random() > -1, typeof crypto.randomUUID(), JSON.stringify([1]), /a/.test("a"), [..."ab"].length];
return [looked, fresh, await demo.echo({ n: 1 }), await Promise.all([demo.echo({ n: 2 })])];
"""
"""All that a chain can see of what it starts with."""

PROGRAMS: list[tuple[str, str, str]] = [
    ('object proto getters throw', 'error Error',
     'const def = Object.defineProperty; for (const k of ["id","value","type","get","set","then","kind","backend","tool","arguments","ok","name","message","stack","error","done","next","length","constructor","toJSON","configurable","enumerable","writable","at","settled","wake","calls","raw","toString","valueOf","notes","refs","cause","errors","size","entries"]) def(Object.prototype, k, { __proto__: null, get() { throw new Error("trap " + k); }, set(v) { def(this, k, { __proto__: null, value: v, writable: true, configurable: true, enumerable: true }); }, configurable: true }); return [await demo.echo({ a: 1 })];'),
    ('object proto getters value', 'value 1',
     'const def = Object.defineProperty; for (const k of ["id","value","type","get","set","then","kind","backend","tool","arguments","ok","name","message","stack","error","done","next","length","constructor","toJSON","configurable","enumerable","writable","at","settled","wake","calls","raw","toString","valueOf","notes","refs","cause","errors","size","entries"]) def(Object.prototype, k, { __proto__: null, get() { return 7; }, configurable: true }); const r = await demo.echo({ a: 1 }); return r.a;'),
    ('object proto setters swallow', 'value [1,2,3]',
     'const def = Object.defineProperty; for (const k of ["id","value","type","get","set","then","kind","backend","tool","arguments","ok","name","message","stack","error","done","next","length","constructor","toJSON","configurable","enumerable","writable","at","settled","wake","calls","raw","toString","valueOf","notes","refs","cause","errors","size","entries"]) def(Object.prototype, k, { __proto__: null, get() { return undefined; }, set() {}, configurable: true }); const r = await demo.echo({ id: 1, value: 2, ok: 3 }); return [r.id, r.value, r.ok];'),
    ('array proto index reply', 'value [1,"number"]',
     'Object.defineProperty(Array.prototype, 0, { set() { globalThis.hit = 1; }, get() { return 9; }, configurable: true }); const r = await demo.echo({ n: JSON.parse("[1,2]") }); return [r.n[0], typeof hit];'),
    ('regexp exec', 'value 100',
     'RegExp.prototype.exec = function () { throw new Error("exec"); }; RegExp.prototype.test = () => { throw 1; }; const r = await demo.echo({ a: "x".repeat(100) }); console.log(/a/, r); return r.a.length;'),
    ('regexp symbol', 'value [{"a":1}]',
     'for (const s of [Symbol.replace, Symbol.match, Symbol.split, Symbol.matchAll, Symbol.search]) RegExp.prototype[s] = () => { throw 1; }; Object.defineProperty(RegExp.prototype, "flags", { get() { throw 2; } }); return [await demo.echo({ a: 1 })];'),
    ('function proto', 'value {"f":1}',
     'Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => { throw 1; }; Object.defineProperty(Function.prototype, "name", { get() { throw 2; } }); Function.prototype[Symbol.hasInstance] ; const r = await demo.echo({ f: 1 }); return r;'),
    ('reflect deleted', 'value {"a":[1,"x",null]}',
     'const own = Reflect.ownKeys; for (const o of [Object, Reflect, JSON, Promise, Array, Map, Set, Symbol, String, Number]) for (const k of own(o)) { try { delete o[k]; } catch {} } const r = await demo.echo({ a: [1, "x", null] }); return r;'),
    ('every prototype emptied', 'value {"a":[1,{"b":2}]}',
     'const own = Reflect.ownKeys; const del = Reflect.deleteProperty; for (const C of [Array, Map, Set, Promise, String, Number, RegExp, Date, Function, Error, Symbol, WeakMap, Uint8Array, ArrayBuffer]) { const all = own(C.prototype); for (let i = 0; i < all.length; i++) del(C.prototype, all[i]); } const r = await demo.echo({ a: [1, { b: 2 }] }); return r;'),
    ('globals emptied', 'value {"a":1}',
     'const own = Reflect.ownKeys(globalThis); for (const k of own) { if (k !== "demo") try { delete globalThis[k]; } catch {} } const r = await demo.echo({ a: 1 }); return r;'),
    ('symbol has instance', 'value {"e":{"name":"RangeError","message":"r"},"m":{"k":1},"d":"1970-01-01T00:00:00.000Z","p":{"a":1}}',
     'for (const C of [Error, Map, Set, Date, Promise, Array, Object, Function]) Object.defineProperty(C, Symbol.hasInstance, { value() { throw new Error("instance"); } }); return { e: new RangeError("r"), m: new Map([["k", 1]]), d: new Date(0), p: demo.echo({ a: 1 }) };'),
    ('to string tag', 'value [{"o":{}},{}]',
     'const o = { get [Symbol.toStringTag]() { throw new Error("tag"); } }; console.log(o); return [await demo.echo({ o }), o];'),
    ('unscopables proxy this', 'value [{"a":1},{"b":1}]',
     'const p = new Proxy(demo, { get(t, k) { return k === Symbol.unscopables ? p : Reflect.get(t, k); } }); return [await p.echo({ a: 1 }), await Reflect.apply(demo.echo, new Proxy({}, { get() { throw 1; } }), [{ b: 1 }])];'),
    ('this is hostile', 'value [{"a":1},{"a":2},{"a":3}]',
     'const f = demo.echo; const bad = new Proxy(function () {}, { get() { throw 1; }, apply() { throw 2; }, getPrototypeOf() { throw 3; } }); return [await f.call(bad, { a: 1 }), await f.call(null, { a: 2 }), await f.apply(1n, [{ a: 3 }])];'),
    ('new call', 'value TypeError',
     'try { new demo.echo({ a: 1 }); } catch (e) { return e.name; } return "made";'),
    ('extend backend', 'value TypeError',
     'try { class X extends demo.echo {} ; new X({ a: 1 }); return "made"; } catch (e) { return e.name; }'),
    ('backend set proto', 'value [{"a":1},["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError"]]',
     'const r = []; for (const f of [() => Object.setPrototypeOf(demo, null), () => Object.defineProperty(demo, "echo", { value: () => 666 }), () => Object.freeze(demo), () => Object.preventExtensions(demo), () => delete demo.echo, () => (demo.echo = () => 666)]) { try { f(); r.push("ok"); } catch (e) { r.push(e.name); } } return [await demo.echo({ a: 1 }), r];'),
    ('backend as proto', 'error TypeError',
     'const o = Object.create(demo); o.x = 1; const r = { ...o }; return [typeof o.echo, await o.echo({ a: 1 }), r];'),
    ('async iter of reply', 'value [{"n":4},4]',
     'Object.prototype[Symbol.asyncIterator] = async function* () { for (;;) yield 1; }; let n = 0; for await (const x of await demo.echo({ a: 1 })) { if (++n > 3) break; } return [await demo.echo({ n }), n];'),
    ('generator reenter call', 'value ["TypeError",{"a":1}]',
     'function* g() { yield it.next(); } const it = g(); try { it.next(); } catch (e) { return [e.name, await demo.echo({ a: 1 })]; }'),
    ('async gen flood', 'value 100',
     'async function* g() { for (;;) yield demo.echo({ a: 1 }); } let n = 0; for await (const x of g()) if (++n === 100) break; return n;'),
    ('getter calls backend', 'error TypeError',
     'const o = { get a() { return demo.echo({ inner: 1 }); } }; return { o, p: await demo.echo(o) };'),
    ('tojson calls backend', 'value {"a":1}',
     'Object.prototype.toJSON = function () { demo.echo({ again: 1 }); return this; }; return await demo.echo({ a: 1 });'),
    ('args getter calls', 'value 400',
     'let n = 0; const args = { get x() { n++; if (n < 200) demo.echo(args); return n; } }; const r = await demo.echo(args); return n;'),
    ('prepare stack calls', 'error Error',
     'Error.prepareStackTrace = () => { demo.echo({ a: 1 }); throw 1; }; throw new Error("x");'),
    ('capture stack proxy', 'value 1',
     'Error.captureStackTrace(new Proxy({}, { defineProperty() { throw new Error("dp"); } }), function f() {}); return 1;'),
    ('error cause cycle', 'error Error',
     'const e = new Error("a"); e.cause = e; e.errors = [e, e]; e.stack = { toString() { throw 1; } }; throw e;'),
    ('throw proxy function', 'error Error',
     'throw new Proxy(function () {}, { get(t, k) { throw new Error("get " + String(k)); }, has() { throw 1; }, getPrototypeOf() { throw 2; }, ownKeys() { throw 3; } });'),
    ('throw revoked in then', 'error Error',
     'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); await Promise.reject(proxy);'),
    ('name is symbol', 'error Error',
     'const e = new Error("m"); e.name = Symbol("s"); e.message = Symbol("t"); throw e;'),
    ('tool name huge', 'error TypeError',
     'return await demo["t".repeat(3e6)]({});'),
    ('json proto argument', 'value [true,["__proto__","constructor"],true,1]',
     'const a = JSON.parse(\'{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}\'); const r = await demo.echo(a); return [({}).polluted === undefined, Object.keys(r), Object.getPrototypeOf(r) === Object.prototype, r.constructor.prototype.polluted];'),
    ('reviver context', 'value [{"a":1}]',
     'JSON.parse = () => ({ forged: true }); JSON.stringify = () => "forged"; return [await demo.echo({ a: 1 })];'),
    ('promise then poison', 'value [{"a":1}]',
     'Promise.prototype.then = function () { return this; }; Promise.resolve = () => ({ then(f) { f(666); } }); return [await demo.echo({ a: 1 })];'),
    ('promise subclass const', 'error Error',
     'class P extends Promise { constructor(x) { super(x); throw new Error("made"); } } Object.defineProperty(Promise.prototype, "constructor", { get() { return P; } }); return [await demo.echo({ a: 1 })];'),
    ('thenable reply value', 'value 666',
     'const r = await demo.echo({ then: "not a function", value: 1 }); Object.prototype.then = function (a) { a(666); }; return [r.value, await demo.echo({ b: 1 })];'),
    ('microtask in reply', 'value [true,{"a":1}]',
     'let n = 0; const f = () => { if (n++ < 1e5) queueMicrotask(f); }; f(); const r = await demo.echo({ a: 1 }); return [n > 1e5, r];'),
    ('async recursion', 'error StackError limit.stack',
     'const f = async (n) => n === 0 ? 0 : 1 + await f(n - 1); return await f(20000);'),
    ('date abuse', 'value ["1970-01-01T00:00:00.000Z",null,"+275760-09-13T00:00:00.000Z","1938-04-24T22:13:20.000Z"]',
     'Object.defineProperty(Date.prototype, Symbol.toPrimitive, { value() { throw 1; } }); Date.prototype.toISOString = () => { throw 2; }; Date.prototype.getTime = () => { throw 3; }; Date.now = () => { throw 4; }; return [new Date(0), new Date(NaN), new Date(8.64e15), new Date(-1e12)];'),
    ('date proxy', 'value ["[Throws: not a Date object]","[Throws: not a Date object]","1970-01-01T00:00:00.000Z"]',
     'return [new Proxy(new Date(0), {}), Object.create(Date.prototype), new (class extends Date { toISOString() { for (;;); } })(0)];'),
    ('locale abuse', 'value ["1e+21",-1,"01/01/1970, 12:00:00 AM"]',
     'return [(1e21).toLocaleString("xx-".repeat(1000)), "a".localeCompare("b", "\\ud800"), new Date(0).toLocaleString({ toString() { throw 1; } })];'),
    ('pad bomb', 'error MemoryError limit.memory',
     'return "x".padStart(2 ** 29, "ab").length;'),
    ('rope bomb', 'error MemoryError limit.memory',
     'let s = "ab"; for (let i = 0; i < 40; i++) s += s; return s.length;'),
    ('regex compile bomb', 'error StackError limit.stack',
     'return new RegExp("(?:".repeat(5000) + "a" + ")*".repeat(5000)).test("b");'),
    ('regex sticky lastindex', 'error TypeError',
     'const r = /a/y; Object.defineProperty(r, "lastIndex", { value: 2 ** 31, writable: false }); return [r.test("a".repeat(10))];'),
    ('bigint pow', 'error RangeError',
     'return (2n ** (2n ** 40n)).toString().length;'),
    ('bigint shift', 'error RangeError',
     'return (1n << 2n ** 62n) > 0n;'),
    ('sab returned', 'value [{},[0,0,0,0],[0,0]]',
     'return [new SharedArrayBuffer(8), new Uint8Array(new SharedArrayBuffer(4)), new DataView(new ArrayBuffer(2))];'),
    ('resizable arg', 'value [{"u":[],"shrink":1,"v":[]},0]',
     'const b = new ArrayBuffer(8, { maxByteLength: 1 << 16 }); const u = new Uint8Array(b); const o = { u, get shrink() { b.resize(0); return 1; }, v: u }; return [await demo.echo(o), u.length];'),
    ('transfer during return', 'value {"a":1,"x":"[Throws: ArrayBuffer is detached]","u":[]}',
     'const b = new ArrayBuffer(1 << 16); const u = new Uint8Array(b).fill(1); return { a: 1, get x() { b.transfer(0); return 2; }, u };'),
    ('typed huge maxbytes', 'error RangeError',
     'return new ArrayBuffer(8, { maxByteLength: 2 ** 40 }).maxByteLength;'),
    ('typed length lie', 'value [{"u":[0,0,0,0]},[0,0,0,0]]',
     'const u = new Uint8Array(4); Object.defineProperty(u, "length", { get() { return 2 ** 32; } }); return [await demo.echo({ u }), u];'),
    ('arguments object', 'value {"0":1,"1":[],"2":"[backend demo]"}',
     'return (function () { return arguments; })(1, new Proxy([], {}), demo);'),
    ('indirect eval', 'value ["object",true,1]',
     'return [(0, eval)("typeof demo"), new Function("return this === globalThis")(), await (new (Object.getPrototypeOf(async function () {}).constructor)("return (await demo.echo({ a: 1 })).a"))()];'),
    ('eval syntax bomb', 'error StackError limit.stack',
     'return eval("(".repeat(200000) + ")".repeat(200000));'),
    ('function params inject', 'value object',
     'return Function("a", "b = (function(){ return typeof __backends })()", "return b")();'),
    ('import dynamic', 'value ["ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError","ReferenceError"]',
     'const r = []; for (const m of ["fs", "qjs:std", "qjs:os", "std", "os", "data:text/javascript,export default 1", "./x.js", "file:///etc/passwd", "\\0"]) { try { await import(m); r.push("loaded"); } catch (e) { r.push(e.name); } } return r;'),
    ('import meta eval', 'value SyntaxError',
     'try { return eval("import.meta"); } catch (e) { return e.name; }'),
    ('destructure deep', 'error SyntaxError',
     'return eval("let " + "[".repeat(20000) + "a" + "]".repeat(20000) + " = []");'),
    ('template deep', 'error StackError limit.stack',
     'return eval("`${".repeat(5000) + "1" + "}`".repeat(5000));'),
    ('timeout nan flood', 'error LimitError limit.timers',
     'for (let i = 0; i < 150000; i++) setTimeout(() => {}, NaN); return 1;'),
    ('timeout string', 'value TypeError',
     'try { setTimeout("globalThis.x = 1", 0); await sleep(1); return typeof x; } catch (e) { return e.name; }'),
    ('random forge', 'value [{"a":1}]',
     'Math.random = () => { throw 1; }; crypto.randomUUID = () => "x"; globalThis.crypto = null; return [await demo.echo({ a: 1 })];'),
    ('global getter demo', 'value [{"a":1}]',
     'Object.defineProperty(globalThis, "demo", { get() { throw 1; }, configurable: true }); return [await __backends.demo.echo({ a: 1 })];'),
    ('global proxy proto', 'value 1',
     'Object.setPrototypeOf(globalThis, new Proxy({}, { has() { return true; }, get(t, k) { throw new Error("g " + String(k)); } })); return 1;'),
    ('object proto proxy', 'value ["TypeError",{"a":1}]',
     'try { Object.setPrototypeOf(Object.prototype, new Proxy({}, { get() { throw 1; } })); } catch (e) { return [e.name, await demo.echo({ a: 1 })]; }'),
    ('array proto proxy', 'error Error',
     'Object.setPrototypeOf(Array.prototype, new Proxy({}, { get(t, k) { throw new Error("ap " + String(k)); }, has() { return true; }, set() { throw 2; } })); return [await demo.echo({ a: [1, , 3] })];'),
    ('string proto proxy', 'error Error',
     'Object.setPrototypeOf(String.prototype, new Proxy({}, { get(t, k) { throw new Error("sp " + String(k)); } })); return [await demo.echo({ a: "x" }), "y".foo];'),
    ('text decoder lie', 'error Error',
     'return new TextDecoder().decode({ byteLength: 2 ** 31, buffer: null, get length() { throw 1; } });'),
    ('tool name odd', 'value ["ok","ok","ok","ok","ok","ok","ok","ok","ok","ok","ok"]',
     'const r = []; for (const n of ["__proto__", "constructor", "then", "", "\\0", "\\ud800", "a.b", " ", "toString", "call", "prototype"]) { try { await __backends.demo.call(n, {}); r.push("ok"); } catch (e) { r.push(e.name); } } return r;'),
    ('promise members deleted', 'value {"r":{"a":1},"p":2}',
     'delete Promise.prototype.then; delete Promise.prototype.constructor; return { r: demo.echo({ a: 1 }), p: (async () => 2)() };'),
    ('await without members', 'value ["object",{"p":3}]',
     'delete Promise.prototype.then; delete Promise.prototype.constructor; const r = await demo.echo({ a: 1 }); return [typeof r, await demo.echo({ p: Promise.resolve(3) })];'),
]  # fmt: skip
"""What it is, how it ends (`value <JSON text>` or `error <name> <limit>`), the code."""
HOW = {name: end for name, end, _ in PROGRAMS}
AT_ONCE = 6


@pytest.fixture(scope="module", params=MODES)
def shared(request: pytest.FixtureRequest, module_cache: Any, sandbox: Sandbox) -> Any:
    limits = Limits(cpu_seconds=20, memory_mb=48, calls=500, guests=AT_ONCE)
    made = Sandbox(limits, cache_dir=module_cache, isolation=request.param)
    made.warm()
    yield made
    made.close()


def end_of(end: Done | Failed) -> str:
    if isinstance(end, Done):
        return f"value {end.text}"
    return f"error {end.error.name} {end.error.limit or ''}".rstrip()


async def test_no_program_changes_what_the_next_one_sees(shared: Sandbox) -> None:
    run = Runner(shared)
    fresh = await run.value(SEEN)
    ends, changed = {}, []
    for name, _, code in PROGRAMS:
        ends[name] = end_of(await run(code))
        if await run.value(SEEN) != fresh:
            changed.append(name)
    assert ends == HOW
    assert changed == []


async def test_no_program_changes_what_runs_beside_it(shared: Sandbox) -> None:
    fresh = await Runner(shared).value(SEEN)
    ends: dict[str, str] = {}
    changed: list[str] = []

    async def one(name: str, code: str) -> None:
        run = Runner(shared)
        ends[name] = end_of(await run(code))
        if await run.value(SEEN) != fresh:
            changed.append(name)

    for first in range(0, len(PROGRAMS), AT_ONCE):
        async with anyio.create_task_group() as tasks:
            for name, _, code in PROGRAMS[first : first + AT_ONCE]:
                tasks.start_soon(one, name, code)
    assert ends == HOW
    assert changed == []
