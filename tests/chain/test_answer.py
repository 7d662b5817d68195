"""The blocks of a finished chain: all text together keeps within the requested size and the client's limit."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.chain.answer import ChainValue, compose
from gatemini.model import Json
from gatemini.output.json.json_text import dump
from gatemini.output.options import OutputOptions
from gatemini.output.store.results import ResultStore
from gatemini.text.size_limit import BOUNDLESS, SizeLimit

WORDS = st.sampled_from(["plain text ", "結果の行 ", "отчёт ", "😀😀 "])
LINES = st.lists(st.tuples(WORDS, st.integers(0, 40)).map(lambda drawn: drawn[0] * drawn[1]), max_size=60)
ANY_ROOM = SizeLimit()


async def answered(
    value: ChainValue, store: ResultStore, max_chars: int = 200_000, room: SizeLimit = ANY_ROOM
) -> list[Json]:
    content, _ = await compose(value, OutputOptions(max_chars=max_chars), store, room=room)
    return content


def texts(content: list[Json]) -> list[str]:
    return [block["text"] for block in content if block["type"] == "text"]


@pytest.mark.anyio
@given(
    value=st.one_of(
        st.tuples(WORDS, st.integers(0, 9_000)).map(lambda drawn: drawn[0] * drawn[1]),
        st.tuples(WORDS, st.integers(0, 900)).map(
            lambda drawn: dump([{"id": n, "text": drawn[0] * (n % 9)} for n in range(drawn[1])])
        ),
    ),
    notes=LINES,
    console=LINES,
    dropped=st.integers(0, 3),
    asked=st.sampled_from([100, 150, 400, 2_000, 10_000, 200_000]),
    room=st.sampled_from(
        [SizeLimit(), SizeLimit(bytes=8_191), SizeLimit(chars=24_999), SizeLimit(bytes=2_000)]
    ),
)
async def test_all_text_of_an_answer_is_never_longer_than_its_budget_and_the_footer(
    value: str, notes: list[str], console: list[str], dropped: int, asked: int, room: SizeLimit
) -> None:
    made = ChainValue(value, "json" if value.startswith("[") else "string", notes, console, dropped)
    said = texts(await answered(made, ResultStore(), asked, room))
    footer = said[-1].rpartition("\n")[2] if "full result: " in said[-1] else ""
    everything = "".join(said)
    assert room.holds(everything)
    assert len(everything) - len(footer) <= asked + (0 if footer else 130)  # or the shortest there is


@pytest.mark.anyio
async def test_the_value_has_at_least_a_quarter_of_a_small_budget() -> None:
    value = ChainValue("v" * 5_000, "string", ["n" * 5_000], ["c" * 5_000], 0)
    first, console, last = texts(await answered(value, ResultStore(), 1_000))
    assert len(first) >= 230
    assert len(console) <= 250
    assert last.partition("\n")[0] == "n" * 497 + "..."
    assert len(first) + len(console) + 500 <= 1_000


@pytest.mark.anyio
async def test_a_console_without_room_for_a_line_is_counted() -> None:
    value = ChainValue("1", "json", [], ["a line of some length"] * 70, 30)
    assert texts(await answered(value, ResultStore(), 100)) == ["1", "[console: 100 lines]"]


@pytest.mark.anyio
async def test_a_repeated_note_comes_once_with_its_count() -> None:
    value = ChainValue("1", "json", ["twice", "once", "twice"])
    assert texts(await answered(value, ResultStore())) == ["1", "twice (×2)\nonce"]


def descriptor(ref: str, kind: str = "image") -> Json:
    return {"type": kind, "mimeType": "image/png", "bytes": 3, "ref": ref}


@pytest.mark.anyio
async def test_an_image_named_many_times_is_shown_once() -> None:
    store = ResultStore()
    ref = store.save_blob(base64.b64encode(b"png").decode(), "image/png")
    content = await answered(ChainValue(dump([descriptor(ref)] * 5), "json", []), store)
    assert [block["type"] for block in content] == ["text", "image"]


@pytest.mark.anyio
async def test_notes_about_many_images_are_merged_by_kind() -> None:
    store = ResultStore()
    large = base64.b64encode(b"p" * 1_500_000).decode()
    refs = [store.save_blob(large, "image/png") for _ in range(9)]
    gone = [f"res_{n:08x}" for n in range(40)]
    value = dump([descriptor(ref) for ref in [*refs, *gone]])
    content = await answered(ChainValue(value, "json", []), store)
    assert [block["type"] for block in content] == ["text", "image", "text"]
    unkept, unshown = texts(content)[-1].split("\n")[:2]
    assert unkept == (
        f"no image or sound is kept under this ref in this session: {', '.join(gone[:5])} and 35 more; "
        "call the tool again"
    )
    assert unshown.startswith(f"not shown, over the limit of an answer: {refs[1]} (image, 1,500,000 bytes), ")
    assert unshown.endswith(" and 3 more")


@pytest.mark.anyio
async def test_an_image_alone_is_the_whole_answer_however_small_the_budget() -> None:
    store = ResultStore()
    ref = store.save_blob(base64.b64encode(b"png").decode(), "image/png")
    content = await answered(
        ChainValue(dump(descriptor(ref)), "json", []), store, 100, SizeLimit(BOUNDLESS, 500)
    )
    assert content == [{"type": "image", "data": base64.b64encode(b"png").decode(), "mimeType": "image/png"}]


@pytest.mark.anyio
async def test_an_embedded_resource_that_is_a_picture_is_shown_and_any_other_stays_behind_its_handle() -> (
    None
):
    store = ResultStore()
    data = base64.b64encode(b"data").decode()
    for mime, kinds in (("image/png", ["image"]), ("application/pdf", ["text"]), ("image/x-none", ["text"])):
        ref = store.save_blob(data, mime)
        content = await answered(ChainValue(dump(descriptor(ref, "resource")), "json", []), store)
        assert [block["type"] for block in content] == kinds
