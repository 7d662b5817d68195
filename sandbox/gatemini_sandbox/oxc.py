"""The second opinion on code the first parser does not take: the OXC transform, itself WebAssembly.

Above: wrap.py. Below: quickjs-rs' public `transform_source`. It reprints the code and gives no positions, so these are
carried over by aligning the tokens of both texts, and only when an error asks for one. The first use takes half a
second (it compiles); code that the first parser takes never comes here.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from functools import cached_property

from quickjs_rs import transform_source
from tree_sitter import Node
from wasmtime import Trap, WasmtimeError

from gatemini_sandbox.parse import descendants, parse_tree

# Aligning is quadratic at worst; beyond this many tokens only the lines' order is kept.
MAX_ALIGNED_TOKENS = 20_000
_FILE = "chain.ts"


class Refused(Exception):
    """OXC does not take the code either; the text is its reason."""


# A function, because OXC takes no `return` outside of one; in brackets, because a stray `}` or `})` in the code must
# not close it unseen.
_OPEN, _CLOSE = "[async function() {", "}];"


def transform(code: str) -> str:
    """TypeScript to reprinted JavaScript; raises Refused with OXC's words, which hold no position."""
    try:
        printed = transform_source(_FILE, f"{_OPEN}{code}\n{_CLOSE}").strip()
    except (Trap, WasmtimeError):
        raise Refused("") from None  # nested deeper than its stack
    except RuntimeError as error:
        raise Refused(str(error).split(f"{_FILE}:", 1)[-1].strip()) from error
    if not (printed.startswith(_OPEN) and printed.endswith(_CLOSE)):
        raise Refused("Unexpected token")
    return printed[len(_OPEN) : -len(_CLOSE)]


class Alignment:
    """From an offset in the reprinted text to one in the text it was printed from, by their common tokens."""

    def __init__(self, printed: bytes, origin: bytes) -> None:
        self._printed = printed
        self._origin = origin

    def offset(self, offset: int) -> int:
        keys, targets = self._pairs
        index = bisect_right(keys, offset) - 1
        return targets[index] if index >= 0 else 0

    @cached_property
    def _pairs(self) -> tuple[list[int], list[int]]:
        printed, origin = _tokens(self._printed), _tokens(self._origin)
        keys: list[int] = []
        targets: list[int] = []
        matcher = difflib.SequenceMatcher(
            None,
            [word for word, _ in printed[:MAX_ALIGNED_TOKENS]],
            [word for word, _ in origin[:MAX_ALIGNED_TOKENS]],
            autojunk=False,
        )
        for block in matcher.get_matching_blocks():
            for step in range(block.size):
                keys.append(printed[block.a + step][1])
                targets.append(origin[block.b + step][1])
        return keys, targets


def _tokens(data: bytes) -> list[tuple[bytes, int]]:
    """Words and signs with their offsets; quotes of strings are alike, since reprinting changes them."""
    root: Node = parse_tree(data).root_node
    found = []
    for node in descendants(root):
        if node.child_count == 0 and node.type != "comment" and node.end_byte > node.start_byte:
            word = data[node.start_byte : node.end_byte]
            found.append((b'"' if word == b"'" else word, node.start_byte))
    return found
