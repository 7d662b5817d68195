"""From an MCP tool result to the value the code gets, and to the error it rejects with.

Binary data never enters a value: it is handed to `save_blob` and the value holds a small descriptor
`{type, mimeType, bytes, ref}`. Notes say what was changed on the way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from gatemini.backends.calls.large_messages import JsonText, Written
from gatemini.chain.values import python_literal
from gatemini.chain.values.beside import texts_beside
from gatemini.chain.values.binary import canonical_base64, picture_kind
from gatemini.chain.values.integers import with_wide_integers
from gatemini.discovery.types.identifiers import short_name
from gatemini.model import Json, Tool
from gatemini.output.json.javascript_json import NotJson, dumps, loads, loads_exact, loads_lenient

SaveBlob = Callable[[str, str], str]
"""Keeps base64 data with its MIME type and gives back the handle."""

SaveText = Callable[[str], str]
"""Keeps a text and gives back the handle."""

ERROR_TEXT: Final = 8_000
"""Characters of a tool's error text that go into the error's message."""

UNKNOWN_TYPE: Final = "application/octet-stream"

_BLANK: Final = " \t\r\n\ufeff"
_OPENS: Final = re.compile(rf"[{_BLANK}]*[{{\[(]")
"""The beginning of a JSON object or array, or of a Python tuple."""
KNOWN_TYPES: Final = frozenset(("text", "image", "audio", "resource", "resource_link"))


@dataclass(slots=True)
class Value:
    """A value for the code. `text`, where there is one, is JSON text of the same value: writing it again can be saved. `written` says that
    there is no value, but only the text, as JavaScript writes it.
    """

    value: Any
    notes: list[str] = field(default_factory=list)
    text: str | None = None
    written: bool = False
    beside: list[Json] = field(default_factory=list)
    """Content beside the structured content, kept under a handle: `tool`, `type`, `ref`, its size."""

    def json(self) -> str:
        """JSON text of the value, for the guest."""
        return self.text if self.text is not None else dumps(self.value)


def to_value(
    result: Json,
    tool: Tool,
    *,
    save_blob: SaveBlob,
    save_text: SaveText | None = None,
    lists: set[str] | None = None,
) -> Value:
    """The value of a successful result; any shape of result gives one.

    `lists` are the qualified names of tools that have answered with several blocks: their answers are arrays.
    """
    reader = _Reader(tool, save_blob, save_text, set() if lists is None else lists)
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    structured = result.get("structuredContent")
    if structured is not None and not _outdone_by_content(structured, blocks):
        reader.take_structured(structured, result, blocks)
    else:
        if structured is not None:
            reader.note("structuredContent was {} beside other content; that is the value")
        elif tool.output_schema is not None and blocks:
            reader.note(
                f"{short_name(tool.qualified)} declares an output schema but sent no structuredContent"
            )
        reader.take_blocks(blocks)
    return reader.out


def _outdone_by_content(structured: Any, blocks: list[Any]) -> bool:
    """Whether `{}` says less than what stands beside it."""
    return structured == {} and any(
        _text_of(b).strip() not in ("", "{}") if _is_text(b) else isinstance(b, dict) for b in blocks
    )


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def _text_of(block: Any) -> str:
    text = block.get("text") if _is_text(block) else None
    return text if isinstance(text, str) else ""


class _Reader:
    """Gathers one value with its notes."""

    def __init__(self, tool: Tool, save_blob: SaveBlob, save_text: SaveText | None, lists: set[str]) -> None:
        self.tool = tool
        self.save_text = save_text
        self.lists = lists
        self.nulls = 0
        self.save_blob = save_blob
        self.out = Value(None)
        self.big_integers = 0

    def note(self, text: str) -> None:
        if text not in self.out.notes:
            self.out.notes.append(text)

    def take_structured(self, structured: Any, result: Json, blocks: list[Any]) -> None:
        if isinstance(structured, Written):
            self._take_written(structured, result)
        else:
            only = isinstance(structured, dict) and structured.keys() == {"result"}
            wrapped = only and _is_wrapped(self.tool, result)
            self.out.value = self._checked(structured["result"] if wrapped else structured)
        self._keep_beside(structured, blocks)
        self._note_big_integers()

    def _keep_beside(self, structured: Any, blocks: list[Any]) -> None:
        """Keep what the blocks say beside the structured content."""
        texts = [block["text"] for block in blocks if _is_text(block) and isinstance(block.get("text"), str)]
        for text in texts_beside(structured, texts):
            self._keep_text("text", text.whole() if isinstance(text, JsonText) else text)
        for block in blocks:
            if _is_text(block) or not isinstance(block, dict):
                continue
            made = self._block(block, alone=False)
            if isinstance(made.get("ref"), str):
                self.out.beside.append({"tool": self.tool.qualified, **made})
            else:
                inner = made.get("text") if made.get("type") == "resource" else None
                self._keep_text(str(made.get("type")), inner if isinstance(inner, str) else dumps(made))

    def _keep_text(self, kind: str, text: str) -> None:
        if self.save_text is None:
            self.note(f"beside its structured content {short_name(self.tool.qualified)} sent {kind}")
            return
        kept = {"type": kind, "chars": len(text), "ref": self.save_text(text)}
        self.out.beside.append({"tool": self.tool.qualified, **kept})

    def _take_written(self, structured: Written, result: Json) -> None:
        """What was too large to be held; its integers were read digit by digit."""
        wrapped = structured.key == "result" and _is_wrapped(self.tool, result)
        inner = structured.member() if wrapped else None
        if isinstance(inner, str):
            self.out.value = inner
        else:
            self.out.text, self.out.written = (inner or structured).text, True

    def take_blocks(self, blocks: list[Any]) -> None:
        as_list = self._answers_a_list()
        if len(blocks) == 1 and not as_list:
            self.out.value = self._block(blocks[0], alone=True)
        elif len(blocks) == 1:
            only = self._block(blocks[0], alone=False)
            self.out.value = only if isinstance(only, list) else [only]
        elif blocks:
            self.out.value = [self._block(block, alone=False) for block in blocks]
            if not as_list:
                self.lists.add(self.tool.qualified)
                self.note(
                    f"{short_name(self.tool.qualified)} sent {len(blocks)} content blocks: an array, as from now on "
                    "also for one block (until now the item itself) or none (null)"
                )
        elif as_list:
            self.out.value = []
        else:
            self.note(
                f"{short_name(self.tool.qualified)} sent no content: null (one block is the value, several an array)"
            )
        if any(not isinstance(block, dict) or block.get("type") != "text" for block in blocks):
            self.out.value = self._checked(self.out.value)  # texts were read digit by digit already
        self._note_big_integers()

    def _answers_a_list(self) -> bool:
        """Whether the value is an array however many blocks there are."""
        schema = self.tool.output_schema
        if isinstance(schema, dict) and _is_wrapped(self.tool, {}):
            properties = schema.get("properties")
            schema = properties.get("result") if isinstance(properties, dict) else None
        if isinstance(schema, dict) and schema.get("type") == "array":
            return True
        return self.tool.qualified in self.lists

    def _checked(self, value: Any) -> Any:
        """The value, with integers that JavaScript would round as strings."""
        return with_wide_integers(value, self._as_text)

    def _block(self, block: Any, *, alone: bool) -> Any:
        if not isinstance(block, dict):
            self.note("a content block was not an object")
            return block
        kind = block.get("type")
        if kind == "text":
            return self._text(block.get("text"), alone=alone)
        if kind in ("image", "audio") and isinstance(block.get("data"), str):
            return self._media({"type": kind}, block["data"], block.get("mimeType"))
        if kind == "resource_link":
            return {
                key: value for key, value in block.items() if key not in ("_meta", "annotations", "icons")
            }
        if kind == "resource" and isinstance(block.get("resource"), dict):
            return self._resource(block["resource"])
        return self._unknown(block)

    def _text(self, text: Any, *, alone: bool) -> Any:
        """Text that is a JSON object or array, or a Python list, tuple or dict, becomes that; any other is a string."""
        if not isinstance(text, str):
            self.note("a text block held no text")
            return text
        if isinstance(text, JsonText):
            if alone:
                self.out.text, self.out.written = text.written, True
                self.big_integers += text.kept
                self.nulls += text.nulls
                return None
            return loads_exact(text.written)
        if _OPENS.match(text) is None:  # no copy of a long text for this question
            return text
        bare = text.strip(_BLANK)
        if bare[-1] not in "}])":
            return text
        try:
            value, kept, nulls = loads_lenient(bare)
        except NotJson:
            return self._python(bare, text)
        self.big_integers += kept
        self.nulls += nulls
        if alone and not kept and not nulls and bare.isascii():
            self.out.text = bare
        return value

    def _python(self, bare: str, text: str) -> Any:
        """The value of text that is a Python literal; any other text as it is."""
        tool = short_name(self.tool.qualified)
        if (found := python_literal.read(bare)) is None:
            if len(bare) > python_literal.MOST_CHARS and python_literal.BEGINS.match(bare):
                self.note(f"{tool} sent more than 256 KB of a Python literal, no JSON: it stays text")
            return text
        self.big_integers += found[1]
        self.nulls += found[2]
        self.note(f"{tool} sent text (a Python literal, no JSON): code gets the value it stands for")
        return found[0]

    def _media(self, head: Json, data: str, mime: Any) -> Json:
        """The descriptor of base64 data; without a `ref` when there is none, or it cannot be decoded."""
        declared = mime if isinstance(mime, str) else ""
        encoded, size = canonical_base64(data)
        guess = head["type"] == "image" or declared.startswith("image/") or declared in ("", UNKNOWN_TYPE)
        kind = (picture_kind(encoded) if guess else None) or declared or UNKNOWN_TYPE
        head |= {"mimeType": kind, "bytes": size}
        if encoded is None or (not size and head["type"] != "resource"):
            self.note(
                f"the {head['type']} block of {short_name(self.tool.qualified)} holds no valid base64 data"
            )
            return head
        if declared not in ("", kind):
            self.note(f"what {short_name(self.tool.qualified)} calls {declared[:60]!r} is {kind}")
        head["ref"] = self.save_blob(encoded, kind)
        return head

    def _resource(self, resource: Json) -> Json:
        head: Json = {"type": "resource"} | {k: resource[k] for k in ("uri", "mimeType") if k in resource}
        if isinstance(resource.get("blob"), str):
            return self._media(head, resource["blob"], resource.get("mimeType"))
        head["text"] = resource.get("text")
        return head

    def _unknown(self, block: Json) -> Json:
        """A block of an unknown form: its fields as they are, but `data` of a MIME type is kept under a handle."""
        kind = str(block.get("type"))
        what = f"a content block of the unknown type {kind!r}"
        if kind in KNOWN_TYPES:
            what = f"{'an' if kind[0] in 'ai' else 'a'} {kind} block of an unknown form"
        self.note(f"{short_name(self.tool.qualified)} sent {what}")
        source = block["source"] if isinstance(block.get("source"), dict) else block
        data, mime = source.get("data"), source.get("mimeType") or source.get("media_type")
        binary = isinstance(data, str) and isinstance(mime, str)
        left_out = {"_meta", "annotations", *(("data", "source") if binary else ())}
        head: Json = {k: v for k, v in block.items() if k not in left_out} | {"type": kind}
        return self._media(head, str(data), mime) if binary else head

    def _as_text(self, integer: int) -> str:
        self.big_integers += 1
        return str(integer)

    def _note_big_integers(self) -> None:
        if self.big_integers:
            what = "1 integer" if self.big_integers == 1 else f"{self.big_integers} integers"
            self.note(f"{what} beyond 2^53 came as strings, so that no digit is lost")
        if self.nulls:
            what = "1 number is" if self.nulls == 1 else f"{self.nulls} numbers are"
            tool = short_name(self.tool.qualified)
            self.note(f"in the text of {tool} {what} NaN, Infinity or beyond 1.8e308: read as null")


def _is_wrapped(tool: Tool, result: Json) -> bool:
    """Whether an SDK put `{"result": X}` around a return that was no object.

    FastMCP marks it in the output schema or the result's `_meta`; the official SDK names its schema
    `<tool>Output` and its one property "Result".
    """
    meta = result.get("_meta")
    marks = meta.get("fastmcp") if isinstance(meta, dict) else None
    if isinstance(marks, dict) and marks.get("wrap_result") is True:
        return True
    schema = tool.output_schema
    if not isinstance(schema, dict):
        return False
    if schema.get("x-fastmcp-wrap-result") is True:
        return True
    properties = schema.get("properties")
    only = properties.get("result") if isinstance(properties, dict) and len(properties) == 1 else None
    return (
        isinstance(only, dict)
        and only.get("title") == "Result"
        and schema.get("title") == f"{tool.name}Output"
    )


def tool_error(result: Json, tool: Tool) -> Json:
    """The fields of the `ToolError` a result with `isError` rejects with; `code`, `structured` if any."""
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if isinstance(content, list) else []
    if structured is None and len(blocks) == 1:
        structured = _object_in(_text_of(blocks[0]))
    error: Json = {
        "name": "ToolError",
        "message": _error_text(blocks, structured),
        "tool": tool.qualified,
        "backend": tool.backend,
    }
    code = _error_member(structured, ("code",))
    if isinstance(code, (int, str)) and not isinstance(code, bool):
        error["code"] = code
    if structured is not None:
        error["structured"] = structured
    return error


def _object_in(text: str) -> Json | None:
    """The object that a text is the JSON of, as a value would be read from it."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value, _ = loads(text)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def _error_member(structured: Any, keys: tuple[str, ...]) -> Any:
    """What an error object says under the first of these keys that it has, or the object in its `error`."""
    for error in (structured, structured.get("error") if isinstance(structured, dict) else None):
        if isinstance(error, dict):
            for key in keys:
                if isinstance(error.get(key), (str, int, float)):
                    return error[key]
    return None


def _error_text(blocks: list[Any], structured: Any) -> str:
    """What the tool says went wrong: its texts, else its structured content, else what else there is."""
    texts = [text for text in map(_error_line, blocks) if text]
    others = sorted({str(b.get("type")) for b in blocks if isinstance(b, dict) and not _is_text(b)})
    if texts:
        text = "\n".join(texts)
    elif structured:
        said = _error_member(structured, ("message", "error", "detail"))
        text = said if isinstance(said, str) and said else structured
        text = text if isinstance(text, str) else dumps(text)
    elif others:
        text = f"the tool reported an error and sent only {', '.join(others)} content: .raw({{…}}) brings it"
    else:
        return "the tool reported an error and said nothing about it"
    if len(text) <= ERROR_TEXT:
        return text
    head, tail = ERROR_TEXT * 3 // 4, ERROR_TEXT // 4
    return f"{text[:head]} … [{len(text) - head - tail:,} characters left out] … {text[-tail:]}"


def _error_line(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    if text := _text_of(block).strip():
        return text
    resource = block.get("resource")
    said = resource.get("text") if isinstance(resource, dict) else None
    return said.strip() if isinstance(said, str) else ""
