"""The second parser, for code the first one does not take: the OXC transform, itself WebAssembly.

By quickjs-rs' public `transform_source`. It reprints the code and gives no positions, so these are
carried over by aligning the tokens of both texts, and only when an error asks for one. Code that the first parser takes never
comes here.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from quickjs_rs import transform_source
from tree_sitter import Node
from wasmtime import Trap, WasmtimeError

from gatemini_sandbox.typescript.nodes import descendants
from gatemini_sandbox.typescript.parse import BeyondRepair, parse_tree

# What the comparison of two texts costs is quadratic at worst, so no more than this many tokens meet at once.
WINDOW = 256
_FILE = "chain.ts"


class Refused(Exception):
    """OXC does not take the code either; the text is its reason."""


# A function, because OXC takes no `return` outside of one; in brackets, because a stray `}` or `})` in the code must
# not close it unseen.
_OPEN, _CLOSE = "[async function() {", "}];"


def transform(code: str) -> str:
    """TypeScript to reprinted JavaScript; raises Refused with OXC's words, which hold no position."""
    printed = _transformed(f"{_OPEN}{code}\n{_CLOSE}").strip()
    if not (printed.startswith(_OPEN) and printed.endswith(_CLOSE)):
        raise Refused("Unexpected token")
    return printed[len(_OPEN) : -len(_CLOSE)]


MARKED_RETURN = "__gatemini_return: throw"


def transform_namespaces(code: str) -> str:
    """As `transform`, of code with namespaces: outside a function, the `return`s in it written as MARKED_RETURN."""
    return _transformed(code).replace(MARKED_RETURN, "return")


def _transformed(code: str) -> str:
    try:
        return transform_source(_FILE, code)
    except (Trap, WasmtimeError):
        raise Refused("") from None  # nested deeper than its stack
    except RuntimeError as error:
        raise Refused(str(error).split(f"{_FILE}:", 1)[-1].strip()) from error


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
        for a, b in align([word for word, _ in printed], [word for word, _ in origin]):
            keys.append(printed[a][1])
            targets.append(origin[b][1])
        return keys, targets


def align(printed: list[bytes], origin: list[bytes]) -> Iterator[tuple[int, int]]:
    """Pairs of places of the same token, both ascending; where the texts differ a window of both is compared."""
    x = y = 0
    while x < len(printed) and y < len(origin):
        if printed[x] == origin[y]:
            yield x, y
            x, y = x + 1, y + 1
            continue
        pieces = printed[x : x + WINDOW], origin[y : y + WINDOW]
        blocks = difflib.SequenceMatcher(None, *pieces, autojunk=False).get_matching_blocks()
        for block in blocks:
            yield from ((x + block.a + step, y + block.b + step) for step in range(block.size))
        last = blocks[-2] if len(blocks) > 1 else blocks[-1]  # the very last one is empty
        # Behind the last match the windows have nothing in common any more.
        x = max(x + last.a + last.size, x + WINDOW // 4)
        y = max(y + last.b + last.size, y + WINDOW // 4)


def _tokens(data: bytes) -> list[tuple[bytes, int]]:
    """Words and signs with their offsets; quotes of strings are alike, since reprinting changes them."""
    try:
        root: Node = parse_tree(data).root_node
    except BeyondRepair:
        return []  # then every place is the beginning of the text
    found = []
    for node in descendants(root):
        if node.child_count == 0 and node.type != "comment" and node.end_byte > node.start_byte:
            word = data[node.start_byte : node.end_byte]
            found.append((b'"' if word == b"'" else word, node.start_byte))
    return found
