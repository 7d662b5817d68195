"""The texts of errors that agents meet, as they get them from the whole path, kept in tests/data/error_golden.txt.

Read the file when it changes: could you correct the code from the text alone? To write it anew, run this with
GATEMINI_WRITE_GOLDEN=1.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import DEMO, answer, running_app

GOLDEN = Path(__file__).parent.parent / "data" / "error_golden.txt"
RULE = "=" * 100

pytestmark = pytest.mark.anyio

COMPOSITE = {
    "broken": {
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "code": "const r = await demo.echo({ n: args.n });\nreturn r.list.length;",
    },
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "shadowed backend": ("const demo = await demo.echo({ n: 1 });\nreturn demo;", {}),
    "backend variable in a callback": (
        "const names = [1, 2];\nfor (const demo of names) {\n  await demo.echo({ n: demo });\n}",
        {},
    ),
    "unknown backend": ("const r = await github.list_issues({ repo: 'a/b' });\nreturn r;", {}),
    "misspelled backend": ("return [await dmeo.echo({ n: 1 })];", {}),
    "backend by its configured name": ("return [await files-eu.echo({ n: 1 })];", {}),
    "unknown tool": ("const r = await demo.ecko({ n: 1 });\nreturn r.n;", {}),
    "bare tool name": ("const r = await add({ a: 1, b: 2 });\nreturn r;", {}),
    "unknown tool in a JSON call": ('{"tool": "demo.rowz", "arguments": {}}', {}),
    "JSON call with args": ('{"tool": "demo.echo", "args": {"n": 1}}', {}),
    "broken JSON call": ('{"tool": "demo.echo", "arguments": {"n": 1}', {}),
    "missing argument": ("return [await demo.add({ a: 1 })];", {}),
    "wrong type of argument": ("const n = '2';\nreturn [await demo.add({ a: 1, b: n })];", {}),
    "misspelled argument": ("return await demo.rows({ num: 3 });", {}),
    "positional arguments": ("const s = await demo.add(1, 2);\nreturn s;", {}),
    "tool failed after another was called": (
        "await demo.write({ key: 'a', value: 1 });\nconst r = await demo.fail({ message: 'no such id' });\nreturn r;",
        {},
    ),
    "parallel calls with one failure": (
        "return await Promise.all([demo.sleep({ ms: 200, tag: 'slow' }), demo.fail({ message: 'boom' })]);",
        {},
    ),
    "forgotten await, then a method": (
        "const rows = demo.rows({ n: 3 });\nconst ids = rows.map((r: any) => r.id);\nreturn ids;",
        {},
    ),
    "await binds to the whole expression": (
        "const ids = await demo.rows({ n: 3 }).map((r: any) => r.id);\nreturn ids;",
        {},
    ),
    "forgotten await in a loop": ("for (const row of demo.rows({ n: 3 })) {\n  console.log(row.id);\n}", {}),
    "parsing what is parsed": (
        "const r = await demo.echo({ a: 1 });\nconst data = JSON.parse(r);\nreturn data.a;",
        {},
    ),
    "property of undefined": ("const r = await demo.echo({ items: [] });\nreturn r.data.items.length;", {}),
    "not an array": (
        "const r = await demo.echo({ items: [1, 2] });\nreturn r.map((x: number) => x * 2);",
        {},
    ),
    "not iterable": (
        "const r = await demo.echo({ items: [1] });\nfor (const x of r) console.log(x);\nreturn 1;",
        {},
    ),
    "MCP content instead of the value": (
        "const r = await demo.echo({ a: 1 });\nreturn JSON.parse(r.content[0].text);",
        {},
    ),
    "text taken for an array": (
        "const r = await demo.text({ n: 20 });\nreturn r.map((line: string) => line.trim());",
        {},
    ),
    "destructured member that is not there": (
        "const { item } = await demo.echo({ items: [1] });\nreturn item.length;",
        {},
    ),
    "member of the items of a result": (
        "const rows = await demo.rows({ n: 2 });\nfor (const row of rows) console.log(row.user.id);",
        {},
    ),
    "assignment to a constant": ("const total = 0;\nfor (const n of [1, 2]) total += n;\nreturn total;", {}),
    "require": ("const fs = require('fs');\nreturn fs.readFileSync('/etc/hostname', 'utf8');", {}),
    "import": ("import fs from 'node:fs';\nreturn fs.readFileSync('/etc/hostname', 'utf8');", {}),
    "fetch": ("const r = await fetch('http://127.0.0.1/');\nreturn r.status;", {}),
    "environment": ("return process.env.HOME;", {}),
    "Python": ("import os\n\ndef main():\n    return os.getcwd()\n", {}),
    "prose": ("Please list all issues of the repository and count them.", {}),
    "curly quotes": ("const r = await demo.echo({ name: “x” });\nreturn r;", {}),
    "unclosed brace": (
        "const rows = await demo.rows({ n: 3 });\nreturn rows.map((r: any) => {\n  return r.id;\n",
        {},
    ),
    "two fenced blocks": ("```ts\nreturn 1;\n```\nand\n```ts\nreturn 2;\n```", {}),
    "deadlock": ("await demo.echo({ n: 1 });\nawait new Promise(() => {});\nreturn 1;", {}),
    "timeout": (
        "await demo.write({ key: 'a', value: 1 });\nawait demo.sleep({ ms: 20000, tag: 'x' });\nreturn 1;",
        {"timeout": 400},
    ),
    "thrown string": ("console.log('before');\nthrow 'just text';", {}),
    "error with a cause": (
        "try {\n  await demo.fail({ message: 'boom' });\n} catch (e) {\n  throw new Error('while saving', { cause: e });\n}",
        {},
    ),
    "backends under another name": ("return await tools.demo.echo({ n: 1 });", {}),
    "unknown backend by name": ("return await __backends['github'].list({ n: 1 });", {}),
    "main function with parameters": (
        "export default async function main({ demo }: any) {\n  return await demo.echo({ n: 1 });\n}",
        {},
    ),
    "inside of a composite tool": ("const r = await composite.broken({ n: 1 });\nreturn r;", {}),
    "Intl": ("return new Intl.NumberFormat('de').format(1234.5);", {}),
    "a name declared twice": ("const x = 1;\nconst x = 2;\nreturn x;", {}),
    "await in a plain function": (
        "function load() {\n  return await demo.rows({ n: 1 });\n}\nreturn load();",
        {},
    ),
    "tool without calling": ("const r = await demo.echo;\nreturn r.n.m;", {}),
    "tool named as some clients do": ("return [await mcp__gateway__demo_add({ a: 1, b: 2 })];", {}),
    "tool called by a client's method": ('return [await demo.callTool("add", { a: 1, b: 2 })];', {}),
    "Python's f-string": ('const n = 1;\nreturn f"row {n}";', {}),
    "line breaks escaped twice": ("const r = await demo.echo({ n: 1 });\\nreturn r.n;", {}),
    "text over two lines": ('const s = "one\ntwo";\nreturn s;', {}),
}


def timeless(text: str) -> str:
    """The text with its durations and chain ids, which differ from run to run, made alike."""
    text = re.sub(r"chain_[0-9a-f]{8}", "chain_00000000", text)
    text = re.sub(r"\((?:<1|\d+(?:\.\d+)?) m?s\)", "(0 ms)", text)
    return re.sub(r"\d+\.\d+ s\b", "0.0 s", text)


async def texts(folder: Path) -> dict[str, str]:
    """Title → code and error text of every case, from a real gateway over two backends."""
    backends = DEMO | {"files-eu": {"transport": "python", "module": "fixtures.demo_server:server"}}
    found: dict[str, str] = {}
    async with running_app(folder, backends, composite_tools=COMPOSITE) as app:
        for title, (code, more) in CASES.items():
            text, is_error, _ = await answer(app, code, **more)
            assert is_error, title
            shown = re.sub(r"[\x00-\x08\x0e-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", code.rstrip())
            found[title] = f"{shown}\n{'-' * 40}\n{timeless(text)}\n"
    return found


def read_golden() -> dict[str, str]:
    parts = GOLDEN.read_text("utf-8").split(RULE + "\n")[1:]
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


async def test_every_error_text_is_the_one_that_was_judged(tmp_path: Path) -> None:
    found = await texts(tmp_path)
    if os.environ.get("GATEMINI_WRITE_GOLDEN"):
        GOLDEN.write_text("".join(f"{RULE}\n{title}\n{body}" for title, body in found.items()), "utf-8")
    golden = read_golden()
    assert list(found) == list(golden)
    for title, body in found.items():
        assert body == golden[title], title


def test_error_texts_are_short_and_put_the_cause_first() -> None:
    golden = read_golden()
    assert len(golden) >= 40
    for title, body in golden.items():
        text = body.partition("-" * 40 + "\n")[2]
        assert len(text) < 1_200, title
        assert re.match(r"[A-Z]\w+: \S|\[\{", text), title
