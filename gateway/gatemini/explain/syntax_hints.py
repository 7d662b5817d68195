"""What a syntax error is really about: another language, prose, or a slip that agents make.

Looks at the submitted text only. What is never closed, and which characters are not code, the sandbox says itself.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.discovery.types.identifiers import JS_WORDS
from gatemini.text.shorten import closest

LOOKED_AT: Final = 20_000
"""Characters from the start of the text in which another language is looked for."""

_LANGUAGES: Final = (
    (
        "Python",
        re.compile(
            r"^(?:[ \t]*(?:(?:async\s+)?def|class)\s+\w+[^{\n]*:[ \t]*(?:#.*)?$|from\s+[\w.]+\s+import\s|import\s+\w+(?:\s+as\s+\w+)?\s*$"
            r"|[ \t]*(?:for\s+\w+\s+in\s+[^{(]|if\s|elif\s|while\s|with\s|try|except|else)[^{}\n]*:[ \t]*$|[ \t]*print\(f?[\"'])",
            re.MULTILINE,
        ),
    ),
    (
        "shell",
        re.compile(
            r"\A\s*(?:#!.*\b(?:ba|z)?sh\b|\$ ?\w|(?:curl|cd|ls|cat|grep|npm|npx|pip|git|echo|sudo|export \w+=|mkdir)\s+[^\s=(.;])"
        ),
    ),
    (
        "SQL",
        re.compile(
            r"\A\s*(?:SELECT\s.+\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s)", re.I | re.S
        ),
    ),
)
_JSON_CALL = re.compile(r"""\A\s*(?:\[?\s*\{\s*["']?tool["']?\s*:|tool:\s*\S+\s*\n\s*arguments:)""")
_XML_CALL = re.compile(r"\A\s*<(?:invoke|function|tool|parameter)", re.I)
_PROSE = re.compile(r"\s*(?:[-*] )?[A-Z][a-z']*[,.:!]?(?: [\w'’,.!?:-]+){2,}\s*")

_IN_LINE: Final = (
    (r"&(?:amp|lt|gt|quot);", "the code came HTML-escaped: write &, < and > instead of &amp;, &lt; and &gt;"),
    (r"^\s*> ?\S", "leave out the `>` that quotes the lines"),
    (
        r"^(?!.*(?:\bif\s*\(|[{}])).*\S\s+if\s.+\selse\s",
        "write `condition ? a : b` instead of `a if condition else b`",
    ),
    (r"^\s*#", "comments start with //"),
    (r"(?:^|\})\s*elif\b", "write `else if` instead of elif"),
    (r"\bis\s+(?:not\s+)?None\b", "write `x === null` instead of `x is None`"),
)
"""Of the whole line of the error: a slip, and what to write."""

_AT_PLACE: Final = (
    (r".?\\(?:r\\)?[nt]", "the line breaks came as the two characters \\n: send the code with real ones (escaped once in JSON)"),
    (r".?\\[\"']", "the quotes came with a backslash in front: send the code with plain ones (escaped once in JSON)"),
)  # fmt: skip
"""Of the text from one character before the error on."""

_NEAR: Final = (
    (r"[\[(][^\[(]*\sfor\s+\w+(?:, ?\w+)*\s+in\s", "comprehensions are Python: write `list.map((x) => …)`, with `.filter((x) => …)` for its `if`"),
    (r"(?<![\w$.])lambda\b", "write `(x) => …` instead of lambda"),
    (r"""(?<![\w$.])[fr]["']""", "write `text ${value}` between backticks instead of an f-string"),
    (r'"""|' + r"'{3}", "write text over several lines between backticks"),
    (r"(?<![\w$.])(?:and|or|not)\b", "write && instead of and, || instead of or, ! instead of not"),
    (r"\bawait\s+[\w$.]+\(\s*[A-Za-z_]\w*\s*:", "arguments have names only inside of an object: write `({ name: value })`"),
    (r"\bif\s+[^(\s]", "put the condition in parentheses: `if (…) { … }`"),
    (r"\bfor\s+[^(\sa]", "write `for (const x of list) { … }`"),
)  # fmt: skip
"""Of the text some characters around the error."""

AROUND: Final = 60
"""Characters of "around"."""


def syntax_hint(source: str, line: str, at: int) -> str | None:
    """What to change so that the text is TypeScript; `at` is the error's place in the text of its line, 0-based."""
    return _other_language(source[:LOOKED_AT], line) or _slip(line, at)


def _other_language(source: str, line: str) -> str | None:
    if _JSON_CALL.match(source):
        return 'a JSON call is exactly {"tool": "backend.tool", "arguments": {…}}: double quotes, values without expressions, nothing after it'
    if _XML_CALL.match(source):
        return "write the call as TypeScript: `return await backend.tool({…});`"
    for name, pattern in _LANGUAGES:
        if pattern.search(source):
            return f"this looks like {name}; a chain is TypeScript, for example `const r = await backend.tool({{…}}); return r;`"
    if _PROSE.fullmatch(line):
        return "this line is prose: leave it out, make it a comment (`// …`), or put the code alone into one ``` block"
    return None


def _slip(line: str, at: int) -> str | None:
    near = line[max(0, at - AROUND) : at + AROUND]
    for patterns, text in ((_IN_LINE, line), (_AT_PLACE, line[max(0, at - 1) :])):
        for pattern, said in patterns:
            if re.match(pattern, text) if patterns is _AT_PLACE else re.search(pattern, text):
                return said
    if re.search(r"=>\s*$", line[:at]) and line[at : at + 1] == "{":
        return "braces after => begin a block: put parentheses around an object, `=> ({ … })`"
    if "??" in line and re.match(r"\?\?|\|\||&&", line[at:]):
        return "put parentheses around one of them: `(a || b) ?? c`"
    before = re.search(r"([A-Za-z]{4,})\s+$", line[:at])
    if before and before[1] not in JS_WORDS and (meant := closest(before[1], sorted(JS_WORDS), 0.7, 1)):
        return f"did you mean `{meant[0]}` in place of `{before[1]}`?"
    if re.search(r"'\w+'$", line[:at]) and re.match(r"\w", line[at:]):
        return 'an apostrophe ends the string: write "…" around text that holds one'
    return next((said for pattern, said in _NEAR if re.search(pattern, near)), None)
