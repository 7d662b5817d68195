"""One parse of the submitted text with tree-sitter, and the nodes the later steps care about.

Above: wrap.py. Below: the tree-sitter grammar for TypeScript. The grammar is more forgiving than TypeScript about line
breaks; the few places where that changes the meaning are found here and parsed again with a semicolon in the gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter_typescript
from tree_sitter import Language, LogType, Node, Parser, Query, QueryCursor, Tree

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
    "enum_declaration",
    "internal_module",
    "module",
    "decorator",
    "html_comment",
    "hash_bang_line",
    "return_statement",
    "await_expression",
    "lookup_type",
    "array_type",
]
_QUERY = Query(
    LANGUAGE,
    "\n".join(f"({kind}) @{kind}" for kind in _KINDS)
    + """
    (required_parameter pattern: (this)) @this_parameter
    (required_parameter (accessibility_modifier)) @property_parameter
    (required_parameter (override_modifier)) @property_parameter
    (required_parameter "readonly") @property_parameter
    (variable_declarator "!" @definite)
    (binary_expression left: (binary_expression operator: "<") operator: ">") @chained
    (assignment_expression "using" @using)
    (method_definition "?" @definite)
    """,
)

# Each round of repairs sees what the one before uncovered; real code needs one or two.
MAX_REPAIRS = 32

# Above this the trace of the parser that finds the offending token would take seconds.
TRACE_LIMIT = 64 * 1024

_SEPARATOR = re.compile(b"\xe2\x80[\xa8\xa9]")
_KEYWORD_ALONE = re.compile(rb"\b(?:let|new)\b(?=\s*(?:\n|//|/\*))")
_INVISIBLE = re.compile(b"\xe2\x80\x8b|\xe2\x81\xa0")
TEXTUAL = frozenset(["string_fragment", "string", "template_string", "regex_pattern", "escape_sequence"])


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

        `tag<T>`…`` becomes two comparisons; `let` or `new` before a line break or a comment may become a name.
        """
        if self.root.has_error or any(kind == "chained" for kind, _ in self.nodes):
            return True
        for match in _KEYWORD_ALONE.finditer(self.data):
            node = self.root.descendant_for_byte_range(match.start(), match.start() + 3)
            if node is not None and node.type == "identifier":
                return True
        return False


def parse(data: bytes) -> Parsed:
    """Parse; never raises: a tree with errors says so in `root.has_error`."""
    tree = parse_tree(data)
    if not data.isascii():
        data, tree = _repair_characters(data, tree)
    seen, breaks = data, []
    nodes = collect(tree.root_node)
    for _ in range(MAX_REPAIRS):
        gap = _missing_break(seen, tree.root_node, nodes)
        if gap is None:
            break
        start, end = gap
        blanks = re.sub(rb"[^\n]", b" ", seen[start + 1 : end])
        candidate = seen[:start] + b";" + blanks + seen[end:]
        again = parse_tree(candidate)
        if again.root_node.has_error and not tree.root_node.has_error:
            break
        seen, tree = candidate, again
        breaks.append(start)
        nodes = collect(tree.root_node)
    return Parsed(data, tree, nodes, breaks)


def parse_tree(data: bytes) -> Tree:
    # A parser is not safe to share between threads and costs a microsecond.
    return Parser(LANGUAGE).parse(data)


def collect(root: Node) -> list[tuple[str, Node]]:
    """Nodes of the interesting kinds with the kind, outermost first, in the order of the text."""
    found = [
        (node.start_byte, -node.end_byte, kind, node)
        for kind, nodes in QueryCursor(_QUERY).captures(root).items()
        for node in nodes
    ]
    found.sort(key=lambda entry: entry[:3])
    return [(kind, node) for _start, _end, kind, node in found]


def text(node: Node) -> str:
    raw = node.text
    return raw.decode("utf-8", "replace") if raw else ""


def code_end(node: Node) -> int:
    """Where the node's last token ends; the grammar may count a comment behind it to the node."""
    while True:
        inner = next(
            (c for c in reversed(node.children) if c.type != "comment" and c.end_byte > c.start_byte), None
        )
        if inner is None:
            return node.end_byte
        node = inner


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


def _missing_break(data: bytes, root: Node, nodes: list[tuple[str, Node]]) -> tuple[int, int] | None:
    """The first gap (start, end) in which TypeScript ends a statement and the grammar does not."""
    for kind, node in nodes:
        if kind in ("lookup_type", "array_type"):
            # `T` newline `[`: TypeScript never continues a type over a line break.
            first = node.child(0)
            bracket = node.child(1)
            if first is not None and bracket is not None and bracket.type == "[":
                gap = first.end_byte, bracket.start_byte
                if b"\n" in data[gap[0] : gap[1]]:
                    return gap
        elif kind in ("as_expression", "satisfies_expression"):
            # `a as T` newline `(`: not callable without parentheses, so a new statement begins.
            parent = node.parent
            if parent is not None and parent.type in ("call_expression", "subscript_expression"):
                following = parent.child(1)
                if following is not None and following.start_byte >= node.end_byte:
                    gap = node.end_byte, following.start_byte
                    if b"\n" in data[gap[0] : gap[1]]:
                        return gap
    return _glued_tail(data, root)


def _glued_tail(data: bytes, root: Node) -> tuple[int, int] | None:
    """A last line that begins with `(` or `[` and would be a call or an index of the line above.

    JavaScript glues them; whoever writes the value on a line of its own, not indented, means a statement.
    """
    last = last_statement(root)
    if last is None:
        return None
    found = None
    for node in _right_edge(last):
        head = node.child(0)
        group = node.child(1)
        if head is None or group is None or group.type == "optional_chain":
            continue
        gap = data[head.end_byte : group.start_byte]
        opens = data[group.start_byte : group.start_byte + 1] in (b"(", b"[")
        if b"\n" in gap and opens and _column(data, group.start_byte) <= _column(data, last.start_byte):
            found = head.end_byte, group.start_byte
    return found


def _right_edge(node: Node) -> Iterator[Node]:
    """Calls and indexes along the end of a statement, outermost first."""
    current: Node | None = node
    while current is not None:
        if current.type in ("call_expression", "subscript_expression"):
            yield current
            current = current.child(0)
        elif current.type == "member_expression":
            current = current.child(0)
        elif current.named_child_count:
            current = current.named_child(current.named_child_count - 1)
        else:
            return


def _column(data: bytes, offset: int) -> int:
    return offset - (data.rfind(b"\n", 0, offset) + 1)


def last_statement(root: Node) -> Node | None:
    """The last top-level node that is neither a comment nor an empty statement nor a declared function."""
    for node in reversed(root.named_children):
        if node.type not in ("comment", "html_comment", "empty_statement", *FUNCTION_DECLARATIONS):
            return node
    return None


FUNCTION_DECLARATIONS = ("function_declaration", "generator_function_declaration")


def foreign_character(parsed: Parsed) -> int | None:
    """Byte offset of the first character outside strings and comments that no JavaScript token holds."""
    offset = at = 0
    code = parsed.data.decode("utf-8", "replace")
    for match in re.finditer(r"[^\x00-\x7f]", code):
        character = match[0]
        offset += len(code[at : match.start()].encode())
        at = match.start()
        if f"a{character}".isidentifier() or character.isspace() or character in "\ufeff\u200c\u200d":
            continue
        node = parsed.root.descendant_for_byte_range(offset, offset + 1)
        if node is not None and node.type not in TEXTUAL and node.type not in ("comment", "hash_bang_line"):
            return offset
    return None


def offending_offset(data: bytes, root: Node) -> int:
    """Byte offset of the first token no reading of the text can go on with, by the parser's own trace."""
    if len(data) <= TRACE_LIMIT:
        found = _traced_offset(data)
        if found is not None:
            return found
    node: Node | None = root
    while node is not None:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None or node.is_error:
            return node.start_byte
        node = inner
    return 0


def _traced_offset(data: bytes) -> int | None:
    """The parser keeps several readings alive; the text is wrong where the last of them stops."""
    best: list[tuple[int, int]] = []
    place = (0, 0)
    done = False

    def note(kind: LogType, message: str) -> None:
        nonlocal place, done
        if done or kind is not LogType.PARSE:
            return
        if message.startswith(("lex_", "process ")):
            numbers = re.search(r"row:(\d+), col(?:umn)?:(\d+)", message)
            if numbers is not None:
                place = int(numbers[1]), int(numbers[2])
        elif message.startswith("detect_error"):
            best.append(place)
        elif message.startswith("resume"):
            done = True

    parser = Parser(LANGUAGE)
    parser.logger = note
    parser.parse(data)
    if not best or not done:
        return None
    row, column = max(best)
    starts = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    offset = starts[row] + column
    blank = re.compile(rb"\s*").match(data, offset)
    return blank.end() if blank is not None and blank.end() < len(data) else offset


def descendants(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def binding_names(node: Node) -> list[str]:
    """Names bound by a declarator, a pattern or a parameter; default values bind nothing."""
    return [text(name) for name in binding_nodes(node)]


def binding_nodes(node: Node) -> list[Node]:
    kind = node.type
    if kind in ("identifier", "shorthand_property_identifier_pattern"):
        return [node]
    if kind == "variable_declarator":
        children = [node.child_by_field_name("name")]
    elif kind in ("required_parameter", "optional_parameter"):
        children = [node.child_by_field_name("pattern")]
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        children = [node.child_by_field_name("left")]
    elif kind == "pair_pattern":
        children = [node.child_by_field_name("value")]
    elif kind in ("object_pattern", "array_pattern", "rest_pattern"):
        children = list(node.named_children)
    else:
        return []
    return [name for child in children if child is not None for name in binding_nodes(child)]


_IDENTIFIERS = Query(LANGUAGE, "[(identifier) (shorthand_property_identifier)] @name")
_NOT_VALUES = (
    "nested_type_identifier",
    "type_query",
    "import_specifier",
    "import_clause",
    "namespace_import",
)


def identifiers(root: Node) -> list[Node]:
    """All names that stand for a variable, declared or used."""
    return QueryCursor(_IDENTIFIERS).captures(root).get("name", [])


def value_names(root: Node) -> set[str]:
    """Names that occur where a value stands: not in types, not where an import or an alias declares them."""
    found = set()
    for node in identifiers(root):
        parent = node.parent
        if parent is not None and parent.type in _NOT_VALUES:
            continue
        if parent is not None and parent.type == "import_alias" and parent.named_child(0) == node:
            continue
        if parent is not None and parent.type in ("member_expression", "nested_identifier"):
            top = parent
            while top.parent is not None and top.parent.type == top.type:
                top = top.parent
            if top.parent is not None and top.parent.type in _NOT_VALUES:
                continue
        found.add(text(node))
    return found
