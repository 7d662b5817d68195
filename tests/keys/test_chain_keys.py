"""Keys that change what a chain is answered: the same code, once as shipped and once with the key changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.config_keys import Changed, row

pytestmark = [pytest.mark.anyio, pytest.mark.long]

BILLS = (
    "return Array.from({ length: 300 }, (_, id) => "
    "({ id, about: id % 50 ? 'the weather in ' + id : 'invoice payment ' + id }));"
)
ROWS_120 = "return await demo.rows({ n: 120 });"
ROWS_3000 = "return await demo.rows({ n: 3000 });"
TEXT = "return await demo.text({ n: 30000 });"
PARALLEL = "await Promise.all([1, 2, 3].map(() => demo.sleep({ ms: 50 }))); return (await demo.stats()).most_running;"
CALLS = "for (let i = 0; i < 4; i++) await demo.echo({ i }); return 'all four';"
LONG = "return 'x'.repeat(4000);"
LINES_40K = "return Array.from({ length: 4000 }, (_, n) => `line ${n}`).join('\\n');"


SANDBOX = [
    row("sandbox.timeout", "200ms", "await new Promise(r => setTimeout(r, 500)); return 'woke';", "^woke", "timeout of 200 ms"),
    row("sandbox.cpu_seconds", 0.1, "let n = 0; for (let i = 0; i < 2e7; i++) n += i; return 'done';", "^done", "CPU"),
    row("sandbox.memory_mb", 16, "return new Uint8Array(40 << 20).length;", "^41943040", "memory"),
    row("sandbox.total_memory_mb", 16, "return new Uint8Array(40 << 20).length;", "^41943040", "all chains|all guests|total"),
    row("sandbox.max_output_size", 1000, LONG, "^x{4000}$", "res_"),
    row("sandbox.max_depth", 8, "let v = 1; for (let i = 0; i < 20; i++) v = [v]; return v;", r"^\[{20}1", "depth|deep"),
    row("sandbox.max_code_bytes", 1024, f"/* {'c' * 2000} */ return 5;", "^5$", "1,?024"),
    row("sandbox.max_calls", 2, CALLS, "^all four", "2 calls|max_calls"),
    row("sandbox.max_calls_in_flight", 1, PARALLEL, "^3$", "^1$"),
    row("sandbox.max_argument_bytes", 1024, "return (await demo.echo({ x: 'x'.repeat(3000) })).x.length;", "^3000", "argument"),
    row("sandbox.max_result_bytes", 1024, "return (await demo.text({ n: 3000 })).length;", "^3000", "result"),
    row("sandbox.max_value_bytes", 1024, "return 'x'.repeat(3000);", "^x{3000}$", "1,?024|value"),
    row("sandbox.max_console_bytes", 256, "for (let i = 0; i < 90; i++) console.log('line', i); return 1;", "line 89(?!.*dropped)", "dropped"),
    row("sandbox.max_console_line", 16, "console.log('0123456789abcdefXYZ'); return 1;", "abcdefXYZ", "0123456789(?!.*XYZ)"),
    row("sandbox.output.auto_chunk_json", False, ROWS_3000, r"^\{.\$reduced", r"^\[\{", max_output_size=3000),
    row("sandbox.output.smart_truncation", False, TEXT, "res_", "line 0000200", max_output_size=3000),
    row("sandbox.output.intent_filter", False, BILLS, "Filtered by intent", "the weather in", intent="invoice payment"),
    row("sandbox.output.table", False, ROWS_120, "^id,name,score", r"^\[\{"),
    row("sandbox.output.table_threshold", 100_000, ROWS_120, "^id,name,score", r"^\[\{"),
    row("sandbox.output.chunk_threshold", 1_000_000, ROWS_3000, r"^\{.\$reduced", r"^\[\{", max_output_size=3000),
    row("sandbox.output.intent_threshold", 1_000_000, BILLS, "Filtered by intent", "the weather in", intent="invoice payment"),
    row("sandbox.output.text_threshold", 100_000, LINES_40K, "truncated", "line 2000\n"),
    row("sandbox.output.text_target", 3000, LINES_40K, "showing first [5-9][0-9]{2} ", "showing first [1-3][0-9]{2} "),
    row("sandbox.output.budget_tokens", 100, LONG, "^x{4000}$", "res_"),
]  # fmt: skip


@pytest.mark.parametrize("changed", SANDBOX)
async def test_a_chain_is_answered_otherwise_when_the_key_is_changed(
    tmp_path: Path, changed: Changed
) -> None:
    await changed.shows(tmp_path)
