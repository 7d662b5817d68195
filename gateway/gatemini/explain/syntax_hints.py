"""What a syntax error is really about: a typographic character, another language, a half-written JSON call.

Looks at the submitted text only, never changes it; pure. Above: hints.py. Below: places.py.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from typing import Final

from gatemini.chain.places import line_at, line_start, place

_LOOKALIKES: Final = {
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\uff02": '"',
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u00b4": "'", "\uff07": "'",
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2010": "-", "\u2011": "-",
    "\uff08": "(", "\uff09": ")", "\uff5b": "{", "\uff5d": "}", "\uff1b": ";", "\uff1a": ":", "\uff0c": ",",
    "\u3001": ",", "\u3002": ".", "\uff1d": "=", "\u2026": "...", "\u00d7": "*", "\u2264": "<=", "\u2265": ">=",
    "\u2260": "!==", "\u2192": "=>", "\u21d2": "=>",
}  # fmt: skip
"""Characters that word processors and chat windows put where code has plain ones."""

LOOKED_AT: Final = 20_000
"""Characters from the start of the text in which another language is looked for."""

_INVISIBLE: Final = frozenset(
    "\u200b\u200c\u200d\u200e\u200f\u2060\u00ad\u202a\u202b\u202c\u202d\u202e\ufe0f"
)
_WORDS: Final = frozenset(
    (
        "const",
        "return",
        "await",
        "async",
        "function",
        "class",
        "throw",
        "while",
        "export",
        "import",
        "interface",
        "type",
        "enum",
    )
)
"""Words whose typos are told."""
_NAMES: Final = {"'": "apostrophe", '"': "quotation mark"}

_PYTHON = re.compile(
    r"^(?:[ \t]*(?:(?:async\s+)?def|class)\s+\w+[^{\n]*:[ \t]*(?:#.*)?$|from\s+[\w.]+\s+import\s|import\s+\w+(?:\s+as\s+\w+)?\s*$"
    r"|[ \t]*(?:for\s+\w+\s+in\s+[^{(]|if\s|elif\s|while\s|with\s|try|except|else)[^{}\n]*:[ \t]*$|[ \t]*print\(f?[\"'])",
    re.MULTILINE,
)
_SHELL = re.compile(
    r"\A\s*(?:#!.*\b(?:ba|z)?sh\b|\$ ?\w|(?:curl|cd|ls|cat|grep|npm|npx|pip|git|echo|sudo|export \w+=|mkdir)\s+[^\s=(.;])"
)
_SQL = re.compile(
    r"\A\s*(?:SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|CREATE\s+TABLE\s)",
    re.I | re.S,
)
_MARKUP = re.compile(r"\A\s*<(?:!DOCTYPE|\?xml|[a-z]+[ >/])", re.I)
_XML_CALL = re.compile(r"\A\s*<(?:invoke|function|tool|parameter)", re.I)
_JSON_CALL = re.compile(r"""\A\s*\[?\s*\{\s*["']?tool["']?\s*:""")
_PROSE = re.compile(r"\s*(?:[-*] )?[A-Z][a-z']*(?: [\w'’,.-]+){2,}[.:!?]?\s*")
_YAML_CALL = re.compile(r"\A\s*tool:\s*\S+\s*\n\s*arguments:")


def syntax_hint(source: str, line: int | None, column: int | None) -> str | None:
    """What to change so that the text is TypeScript, or None if nothing stands out."""
    text = (line_at(source, line) or "")[:LOOKED_AT] if line else ""
    return (
        _odd_character(source, line, column)
        or _other_language(source)
        or _prose(text, line)
        or _common_slip(text, (column or 1) - 1)
        or _unbalanced(source)
    )


def _prose(text: str, line: int | None) -> str | None:
    """The line of the error is a sentence, or was quoted as mail is."""
    if _PROSE.fullmatch(text):
        return f"line {line} is prose: leave it out, make it a comment (`// …`), or put the code alone into one ``` block"
    return "leave out the `>` that quotes the lines" if re.match(r"\s*> ?\S", text) else None


def _odd_character(source: str, line: int | None, column: int | None) -> str | None:
    """The typographic or invisible character of the line, at the column if one is there."""
    text = line_at(source, line) if line else None
    if text is None or text.isascii():
        return None
    at = (column or 1) - 1
    held = _held(source, line)
    near = range(max(0, at - LOOKED_AT), min(len(text), at + LOOKED_AT))
    places = [at, *near] if at in near else list(near)
    for index in places:
        sign = text[index]
        if sign.isascii() or (index != at and any(start <= index < end for start, end in held)):
            continue
        name = f"{unicodedata.name(sign, 'character')} U+{ord(sign):04X} at line {line}, column {index + 1}"
        if sign in _LOOKALIKES and index == at:  # the message names it and its place
            return f"write {_LOOKALIKES[sign]} instead ({unicodedata.name(sign, 'character')} is not code)"
        if sign in _LOOKALIKES:
            return f"the character {sign} ({name}) is not code: write {_LOOKALIKES[sign]}"
        if sign in _INVISIBLE:
            return f"there is an invisible character ({name}): remove it"
        if index == at and unicodedata.category(sign)[0] in "SPC":
            return f"the character {sign} ({name}) is not code"
    return None


def _held(source: str, line: int | None) -> list[tuple[int, int]]:
    """What of the line stands in comments and texts, where any character may: from and up to which index."""
    if len(source) > LOOKED_AT or line is None:
        return []
    first = line_start(source, line) or 0
    last = first + len(line_at(source, line) or "")
    return [
        (max(token.start() - first, 0), token.end() - first)
        for token in _TOKENS.finditer(source)
        if len(token[0]) > 1 and token.start() <= last and token.end() >= first
    ]


def _other_language(source: str) -> str | None:
    source = source[:LOOKED_AT]
    if _JSON_CALL.match(source):
        return 'a JSON call is exactly {"tool": "backend.tool", "arguments": {…}}: double quotes, values without expressions, nothing after it'
    if _YAML_CALL.match(source):
        return 'write the call as JSON: {"tool": "backend.tool", "arguments": {…}}'
    if _XML_CALL.match(source):
        return "write the call as TypeScript: `return await backend.tool({…});`"
    for name, pattern in (("Python", _PYTHON), ("shell", _SHELL), ("SQL", _SQL), ("HTML or JSX", _MARKUP)):
        if (pattern.search if name == "Python" else pattern.match)(source):
            return f"this looks like {name}; a chain is TypeScript, for example `const r = await backend.tool({{…}}); return r;`"
    return None


_PYTHON_PARTS: Final = (
    (re.compile(r"(?<![\w$.])elif\b"), "write `else if (…)` instead of elif"),
    (re.compile(r"(?<![\w$.])lambda\b"), "write `(x) => …` instead of lambda"),
    (
        re.compile(r"""(?<![\w$.])[fr]["']"""),
        "write `text ${value}` between backticks instead of an f-string",
    ),
    (re.compile(r'"""|' + r"'{3}"), "write text over several lines between backticks"),
    (
        re.compile(r"(?<![\w$.])(?:and|or|not)\b"),
        "write && instead of and, || instead of or, ! instead of not",
    ),
)


def _common_slip(text: str, at: int) -> str | None:
    if re.search(r"&(?:amp|lt|gt|quot);", text):
        return "the code came HTML-escaped: write &, < and > instead of &amp;, &lt; and &gt;"
    if re.match(r".?\\(?:r\\)?[nt]", text[max(0, at - 1) :]):
        return "the line breaks came as the two characters \\n: send the code with real ones (escaped once in JSON)"
    if re.match(r".?\\[\"']", text[max(0, at - 1) :]):
        return (
            "the quotes came with a backslash in front: send the code with plain ones (escaped once in JSON)"
        )
    if re.search(r"=>\s*$", text[:at]) and text[at : at + 1] == "{":
        return "braces after => begin a block: put parentheses around an object, `=> ({ … })`"
    if re.match(r"\?\?|\|\||&&", text[at:]) and "??" in text:
        return "put parentheses around one of them: `(a || b) ?? c`"
    if re.search(r"\S\s+if\s.+\selse\s", text) and not re.search(r"\bif\s*\(|[{}]", text):
        return "write `condition ? a : b` instead of `a if condition else b`"
    if re.search(r"[\[(][^\[(]*\sfor\s+\w+(?:, ?\w+)*\s+in\s", text[max(0, at - 200) : at + 200]):
        return "comprehensions are Python: write `list.map((x) => …)`, with `.filter((x) => …)` for its `if`"
    before = re.search(r"([A-Za-z]{4,})\s+$", text[:at])
    if before and (meant := difflib.get_close_matches(before[1], _WORDS - {before[1]}, 1, 0.7)):
        return f"did you mean `{meant[0]}` where `{before[1]}` stands?" if before[1] not in _WORDS else None
    if re.search(r"'\w+'$", text[:at]) and re.match(r"\w", text[at:]):
        return 'an apostrophe ends the string: write "…" around text that holds one'
    near = text[max(0, at - 30) : at + 30]
    if said := next((said for pattern, said in _PYTHON_PARTS if pattern.search(near)), None):
        return said
    if re.search(r"\bif\s+[^(\s]", text):
        return "put the condition in parentheses: `if (…) { … }`"
    if re.search(r"\bfor\s+[^(\sa]", text):
        return "write `for (const x of list) { … }`"
    if re.search(r"^\s*@\w+", text):
        return "decorators are not supported here: call the function instead"
    if re.search(r"^\s*#", text):
        return "comments start with //"
    return None


_TOKENS = re.compile(
    r"//[^\r\n]*|/\*(?:[^*]|\*(?!/))*+\*/"
    r'|"(?:[^"\\\r\n]|\\[\s\S])*+"'
    r"|'(?:[^'\\\r\n]|\\[\s\S])*+'"
    r"|`(?:[^`\\]|\\[\s\S])*+`"
    r"|(?<=[=(,:;!&|?{}])\s*+/(?![/*])(?:[^/\\\[\r\n]|\\.|\[(?:[^\]\\\r\n]|\\.)*+\])++/"
    r"|[(){}\[\]]"
)
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


def _unbalanced(source: str) -> str | None:
    """The bracket that is never closed or never opened, looking past strings, comments and plain regexes."""
    still_open: list[tuple[str, int]] = []
    for token in _TOKENS.finditer(source[:LOOKED_AT]):
        sign = token[0]
        if sign in _PAIRS.values():
            still_open.append((sign, token.start()))
        elif sign in _PAIRS:
            if not still_open:
                return f"the `{sign}` at {_place(source, token.start())} closes nothing: remove it"
            opened, at = still_open.pop()
            if opened != _PAIRS[sign]:
                return f"the `{opened}` at {_place(source, at)} is not closed before the `{sign}` at {_place(source, token.start())}"
    if still_open and len(source) <= LOOKED_AT:
        sign, at = still_open[-1]
        return f"the `{sign}` at {_place(source, at)} is never closed"
    return None


def _place(source: str, offset: int) -> str:
    line, column = place(source, offset)
    return f"line {line}, column {column}"
