"""Positions in code that OXC reprinted: found by aligning tokens, exactly, and in time whatever the code is."""

from __future__ import annotations

import difflib
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.second_parser import oxc

ONLY_OXC = "f<T>`x`;\n"
WORDS = st.lists(st.sampled_from([b"a", b"b", b"(", b")", b";"]), max_size=60)


def test_a_process_loads_the_compiled_parser_and_compiles_none(module_cache: Path, sandbox: Sandbox):
    """The self-test of what oxc_module.py uses of quickjs-rs."""
    script = """if True:
        import sys, wasmtime
        from pathlib import Path
        from gatemini_sandbox.typescript.second_parser import oxc, oxc_module
        wasmtime.Module.__init__ = None
        oxc_module.load(Path(sys.argv[1]))
        print(oxc.transform("const a: number = 1"))
    """
    done = subprocess.run([sys.executable, "-c", script, module_cache], capture_output=True, text=True)
    assert "const a = 1;" in done.stdout, done.stderr


def test_the_last_line_of_long_monotonous_code_is_found():
    code = ONLY_OXC + "a;\n" * 15_000 + "null.x"
    program = prepare(code, ())
    assert not program.exact
    before = program.js[: program.js.index("null.x")]
    column = len(before) - before.rfind("\n")
    assert program.position(before.count("\n") + 1, column) == (15_002, 1)


@pytest.mark.long
def test_the_number_of_comparisons_grows_linearly_with_the_text(monkeypatch: pytest.MonkeyPatch):
    compared = 0
    real = difflib.SequenceMatcher

    def counting(junk: Any, a: list[bytes], b: list[bytes], **rest: Any) -> Any:
        nonlocal compared
        compared += len(a) * len(b)
        return real(junk, a, b, **rest)

    monkeypatch.setattr(oxc.difflib, "SequenceMatcher", counting)
    printed = [b"a", b";"] * 5000 + [b"x", b"y"] * 5000
    origin = [b"y", b"a"] * 5000 + [b";", b"x"] * 5000
    pairs = list(oxc.align(printed, origin))
    assert pairs
    assert compared <= (len(printed) + len(origin)) * 4 * oxc.WINDOW


def test_tokens_left_out_and_added_do_not_move_the_others():
    body = [b"t%d" % n for n in range(500)]
    kept = [word for n in range(500) for word in (b";", body[n])]
    origin = [word for n in range(500) for word in (b":", b"T", body[n])]
    pairs = list(oxc.align(kept, origin))
    assert [(kept[a], origin[b]) for a, b in pairs] == [(word, word) for word in body]


@given(WORDS, WORDS)
def test_paired_tokens_are_equal_and_in_order(printed: list[bytes], origin: list[bytes]):
    pairs = list(oxc.align(printed, origin))
    assert all(printed[a] == origin[b] for a, b in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
