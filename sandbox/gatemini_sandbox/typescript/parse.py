"""Parse the submitted text once with tree-sitter, and collect the nodes the later steps need.

The grammar is more forgiving than TypeScript about line breaks; where that changes the meaning the text is parsed again
with a semicolon in the gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from gatemini_sandbox.errors import ReadingTooLong
from gatemini_sandbox.typescript.line_breaks import TRIVIA, glued_tail, missing_breaks
from gatemini_sandbox.typescript.nesting import check_openings
from gatemini_sandbox.typescript.nodes import ANY_FUNCTION, TEXTUAL
from gatemini_sandbox.typescript.parse_deadline import check, over, parse_until

LANGUAGE = Language(tree_sitter_typescript.language_typescript())

# Kinds of nodes handed to the erasing steps; everything else in the tree is plain JavaScript to them.
_KINDS = [
    "type_annotation",
    "type_predicate_annotation",
    "asserts_annotation",
    "type_parameters",
    "type_arguments",
    "implements_clause",
    "accessibility_modifier",
    "override_modifier",
    "interface_declaration",
    "type_alias_declaration",
    "ambient_declaration",
    "function_signature",
    "import_statement",
    "import_alias",
    "export_statement",
    "abstract_method_signature",
    "method_signature",
    "index_signature",
    "public_field_definition",
    "abstract_class_declaration",
    "optional_parameter",
    "non_null_expression",
    "as_expression",
    "satisfies_expression",
    "type_assertion",
    "instantiation_expression",
    "enum_declaration",
    "internal_module",
    "module",
    "decorator",
    "hash_bang_line",
    "return_statement",
    "await_expression",
    "lookup_type",
    "array_type",
    "type_query",
    "import",
]
_QUERY = Query(
    LANGUAGE,
    "\n".join(f"({kind}) @{kind}" for kind in _KINDS)
    + """
    (required_parameter pattern: (this)) @this_parameter
    ([(required_parameter [(accessibility_modifier) (override_modifier) "readonly"])
      (optional_parameter [(accessibility_modifier) (override_modifier) "readonly"])]) @property_parameter
    """
    + f"[{' '.join(f'({kind})' for kind in sorted(ANY_FUNCTION))}] @function",
)

_SIGN_BEHIND = re.compile(TRIVIA + rb"(?:[+\-<>\[]|!(?!=))")

# Tokens found by their text: a pattern with an inner token would keep one state per level of nesting in the cursor,
# which is quadratic for `1+1+1+…`. (text, token, kind of its parent, what it is called here)
_TOKENS = (
    (re.compile(rb"!(?=" + TRIVIA + rb":)"), "!", "variable_declarator", "definite"),
    (re.compile(rb"\?(?=" + TRIVIA + rb"[(<])"), "?", "method_definition", "definite"),
    (re.compile(rb"(?<!=)>(?=\s*+[`(]|[ \t]*+(?:\n|//|/\*))"), ">", "binary_expression", "greater"),
    (re.compile(rb"\busing(?=\s++[\w$])"), "using", "assignment_expression", "using"),
)

# Depth of the tree up to which queries take linear time: the parser counts it in 16 bits.
MOST_DEEP = 60_000

# Each round of repairs sees what the one before uncovered; real code needs one or two.
MAX_REPAIRS = 6

# Work of the parser, in units of 100 of its operations: code without errors takes up to 0.07 units a byte. Its recovery
# from errors is quadratic in places (2 KB of `|-` took 10,000 units, 0.4 s), so it is stopped.
FREE_UNITS = 100
UNITS_PER_BYTE = 0.25

# Bytes a query looks at in one go, the interpreter held: some 15 ms where every other byte is a node.
STRETCH = 32 * 1024

_SEPARATOR = re.compile(b"\xe2\x80[\xa8\xa9]")
_KEYWORD_ALONE = re.compile(
    rb"\b(?:let|new|export|public|private|protected|readonly|abstract|override|declare)\b"
    rb"(?=(?:[ \t]|/\*(?:[^*\n]|\*(?!/)|(?!))*+\*/|(?!))*+(?:\n|//|/\*))"
)
# The grammar wants the brace of a namespace on its line.
_NEXT_LINE_BRACE = re.compile(rb"\b(?:namespace|module)[ \t]++[\w$.\x80-\xff]++[^\S\n]*+\n\s*+\{")
_INVISIBLE = re.compile(b"\xe2\x80\x8b|\xe2\x81\xa0")


class BeyondRepair(ReadingTooLong):
    """The parser's recovery from the errors of the text would take more than linear time: it has errors for certain."""


@dataclass(frozen=True)
class Parsed:
    """`data` is the text with forgiven characters repaired in place; `breaks` are offsets that need a semicolon."""

    data: bytes
    tree: Tree
    nodes: list[tuple[str, Node]]
    breaks: list[int] = field(default_factory=list)

    @property
    def root(self) -> Node:
        return self.tree.root_node

    @property
    def doubtful(self) -> bool:
        """Whether the grammar fails, or is known to read such code in another way than TypeScript.

        A generic call may become two comparisons, and these a generic name; a keyword before a line break or a comment
        may become a name, or stay a modifier where TypeScript sees a name.
        """
        # `a<!--b` is arithmetic in TypeScript; a script would take it for a comment of the nineties.
        if (
            self.root.has_error
            or b"<!--" in self.data
            or any(
                _is_generic_call(kind, node) or _is_comparison(kind, node, self.data)
                for kind, node in self.nodes
            )
        ):
            return True
        for match in _KEYWORD_ALONE.finditer(self.data):
            node = self.root.descendant_for_byte_range(match.start(), match.end())
            if node is not None and node.start_byte == match.start() and node.end_byte == match.end():
                return True
        return False


def _is_generic_call(kind: str, node: Node) -> bool:
    """`a < f<T>(x)`, `f<T>`…`` and `f<T>` at the end of a line: what was read as a comparison of a comparison."""
    comparison = node.parent if kind == "greater" else None
    left = comparison.child(0) if comparison is not None else None
    operator = left.child_by_field_name("operator") if left is not None else None
    return operator is not None and operator.type == "<"


def _is_comparison(kind: str, node: Node, data: bytes) -> bool:
    """`[a < b, c > -d]`: what was read as a name with type arguments, which no such sign may follow."""
    return kind == "instantiation_expression" and _SIGN_BEHIND.match(data, node.end_byte) is not None


def parse(data: bytes) -> Parsed:
    """Parse; never raises: a tree with errors says so in `root.has_error`."""
    tree = parse_tree(data)
    if not data.isascii():
        data, tree = _repair_characters(data, tree)
    seen = _NEXT_LINE_BRACE.sub(lambda found: found[0].replace(b"\n", b" "), data)
    if seen != data:
        tree = parse_tree(seen)
    breaks: list[int] = []
    nodes = collect(seen, tree.root_node)
    for _ in range(MAX_REPAIRS):
        gaps = missing_breaks(seen, nodes) or glued_tail(seen, tree.root_node)
        if not gaps:
            break
        edited = bytearray(seen)
        for start, end in gaps:
            edited[start:end] = b";" + re.sub(rb"[^\n]", b" ", seen[start + 1 : end])
        candidate = bytes(edited)
        again = parse_tree(candidate)
        if again.root_node.has_error:
            break
        seen, tree = candidate, again
        breaks.extend(start for start, _end in gaps)
        nodes = collect(seen, tree.root_node)
    return Parsed(data, tree, nodes, breaks)


def parse_tree(data: bytes) -> Tree:
    """The tree. Raises BeyondRepair for errors that are too expensive to recover from, else ReadingTooLong."""
    check_openings(data)
    most = FREE_UNITS + UNITS_PER_BYTE * len(data)
    units = 0

    def stop() -> bool:
        nonlocal units
        units += 1
        return units > most or over()

    # A parser is not safe to share between threads and costs a microsecond.
    tree = parse_until(Parser(LANGUAGE), data, stop)
    if tree is None and units > most:
        raise BeyondRepair("the code has errors that take too long to parse")
    if tree is None:
        raise ReadingTooLong("the code takes too long to parse")
    return tree


def collect(data: bytes, root: Node) -> list[tuple[str, Node]]:
    """Nodes of the interesting kinds with the kind, outermost first, in the order of the text."""
    _check_depth(root)
    found = [entry for start in range(0, len(data) or 1, STRETCH) for entry in _captured(root, start)]
    for pattern, token, parent_kind, kind in _TOKENS:
        for match in pattern.finditer(data):
            check()
            node = root.descendant_for_byte_range(match.start(), match.end())
            if (
                node is not None
                and node.type == token
                and node.parent is not None
                and node.parent.type == parent_kind
            ):
                found.append((node.start_byte, -node.end_byte, kind, node))
    found.sort(key=lambda entry: entry[:3])
    return [(kind, node) for _start, _end, kind, node in found]


def _captured(root: Node, start: int) -> list[tuple[int, int, str, Node]]:
    """What the query finds that begins in one stretch of the text, in order."""
    check()
    end = start + STRETCH
    cursor = QueryCursor(_QUERY)
    if root.end_byte > STRETCH:
        cursor.set_byte_range(start, end)  # also gives what only reaches into it
    return sorted(
        (
            (node.start_byte, -node.end_byte, kind, node)
            for kind, nodes in cursor.captures(root).items()
            for node in nodes
            if start <= node.start_byte < end
        ),
        key=lambda entry: entry[:3],
    )


def _check_depth(root: Node) -> None:
    if root.descendant_count <= MOST_DEEP:
        return
    cursor, depth = root.walk(), 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > MOST_DEEP:
                raise ReadingTooLong(f"the code nests its expressions more than {MOST_DEEP:,} deep")
            continue
        check()
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1


def _repair_characters(data: bytes, tree: Tree) -> tuple[bytes, Tree]:
    """U+2028/2029 end a line and zero-width characters are nothing, but not where they are text."""
    repaired = bytearray(data)
    for pattern, replacement in ((_SEPARATOR, b"\n  "), (_INVISIBLE, b"   ")):
        for match in pattern.finditer(data):
            node = tree.root_node.descendant_for_byte_range(match.start(), match.end())
            if node is None or node.type not in TEXTUAL:
                repaired[match.start() : match.end()] = replacement
    if repaired == data:
        return data, tree
    return bytes(repaired), parse_tree(bytes(repaired))
