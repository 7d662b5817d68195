"""Result handles: everything comes back exactly, within the caps, and what is gone says so."""

import base64
import json
import math
import shutil
import struct
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gatemini.errors import InvalidRequest, ResultGone, ResultNotKept
from gatemini.output.json.json_text import dump
from gatemini.output.store.pages import ENVELOPE, PAGE
from gatemini.output.store.results import ResultStore
from gatemini.text.size_limit import SizeLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def walked(store: ResultStore, handle: str, most: int = 1 << 20) -> list[Any]:
    """All rows and pieces, as `results.chunks` gives them."""
    found: list[Any] = []
    offset: Any = 0
    while offset is not None:
        page = store.chunk(handle, offset, most=most)
        assert len(dump(page)) <= most
        found += page["rows"]
        offset = page["next_offset"]
    return found


ROWS: list[dict[str, Any]] = [
    {"id": n, "team": "red" if n % 2 else "blue", "at": f"2024-05-{n % 28 + 1:02d}"} for n in range(100)
]


def test_a_handle_is_res_and_eight_hex_digits_and_valid_only_in_its_session() -> None:
    one, other = ResultStore(), ResultStore()
    handle = one.save(ROWS)
    assert handle.startswith("res_")
    assert len(handle) == 12
    int(handle[4:], 16)
    with pytest.raises(ResultGone):
        other.load(handle)


def test_a_row_nested_deeply_is_a_row_like_the_others() -> None:
    many: list[dict[str, Any]] = [{"id": n, "v": "abcdefghij" * 5} for n in range(9000)]
    deep = '{"id":8000,"d":' + "[" * 260 + "]" * 260 + "}"
    text = dump(many[:8000])[:-1] + f",{deep}," + dump(many[8001:])[1:]
    store = ResultStore()
    handle = store.save_bytes(text.encode(), None)
    page = store.rows(handle, 7999, 3)
    assert page["rows"] == [many[7999], json.loads(deep), many[8001]]
    assert store.text(handle) == text


def test_info_tells_rows_schema_digest_and_how_to_read_on() -> None:
    store = ResultStore()
    info = store.info(store.save({"items": ROWS, "total": 100}, label="people"))
    assert info["total_rows"] == 100
    assert info["rows_at"] == "items"
    assert info["label"] == "people"
    assert info["schema"] == {"id": "integer", "team": "string", "at": "string"}
    assert info["digest"]["counts"] == {"team": {"blue": 50, "red": 50}}
    assert info["digest"]["range"] == {"id": [0, 99], "at": ["2024-05-01", "2024-05-28"]}
    assert f"gatemini://result/{info['handle']}/" in info["note"]


def test_a_digest_never_exceeds_600_bytes() -> None:
    wide = [{f"column_{k}": (n + k) % 7 for k in range(80)} for n in range(50)]
    store = ResultStore()
    assert 100 < len(dump(store.info(store.save(wide))["digest"])) <= 600


def test_rows_come_at_most_forty_at_a_time_and_lead_to_the_end() -> None:
    store = ResultStore()
    handle = store.save(ROWS)
    page = store.rows(handle, 0, 1000)
    assert page["rows"] == ROWS[:40]
    assert page["next_offset"] == 40
    seen, offset = [], 0
    while offset is not None:
        page = store.rows(handle, offset)
        seen += page["rows"]
        offset = page["next_offset"]
    assert seen == ROWS
    assert store.rows(handle, 100) == {
        "handle": handle, "offset": 100, "total_rows": 100, "next_offset": None, "rows": [],
    }  # fmt: skip


def test_chunks_have_the_requested_length() -> None:
    store = ResultStore()
    handle = store.save(ROWS)
    assert store.chunk(handle, 10, 75)["rows"] == ROWS[10:85]
    assert store.chunk(handle, 85, 75)["next_offset"] is None


@pytest.mark.parametrize("bad", [-1, 1.5, "3", True, None])
def test_an_offset_that_is_no_whole_number_is_refused(bad: Any) -> None:
    store = ResultStore()
    handle = store.save(ROWS)
    with pytest.raises(InvalidRequest, match="offset"):
        store.rows(handle, bad)


def test_the_rows_of_a_text_are_its_lines() -> None:
    store = ResultStore()
    handle = store.save("a\nb\u2028still b\r\n\nd")
    assert store.rows(handle)["rows"] == ["a", "b\u2028still b\r", "", "d"]
    assert store.load(handle) == "a\nb\u2028still b\r\n\nd"
    long = store.save("\n".join(f"line {n} {'x' * 90}" for n in range(20_000)))
    assert store.rows(long, 12_345, 2)["rows"][1].startswith("line 12346 ")
    assert store.info(long)["total_rows"] == 20_000


def test_a_string_that_looks_like_json_stays_a_string() -> None:
    store = ResultStore()
    assert store.load(store.save("[1,2]")) == "[1,2]"


def test_values_and_bytes_come_back_exactly() -> None:
    store = ResultStore()
    for text in (
        '{"2":1,"1":2,"a":1,"a":2}',
        '"\\ud800"',
        "\ud800",
        '{"n":12345678901234567890123}',
        "[NaN]",
        "",
    ):
        assert store.text(store.save(text=text)) == text
    for value in (None, 0, "", [], {"a": {"1": None}}):
        assert store.load(store.save(value)) == value


def test_a_row_far_inside_a_large_result_is_found_without_reading_all_of_it() -> None:
    rows = [{"id": n, "pad": "x" * 20} for n in range(60_000)]
    store = ResultStore(memory_bytes=1000)
    handle = store.save({"wrapped": {"rows": rows}})
    assert store.disk_used > 1 << 20
    assert store.rows(handle, 51_234, 3)["rows"] == rows[51_234:51_237]
    assert store.rows(handle, 59_999)["rows"] == rows[59_999:]
    assert store.chunk(handle, 0, 60_000)["rows"] == rows


def test_a_dropped_handle_and_an_idle_one_fail_loudly() -> None:
    clock = Clock()
    store = ResultStore(clock=clock, idle_seconds=3600)
    dropped, idle, used = store.save(1), store.save(2), store.save(3)
    assert store.drop(dropped)
    clock.now = 3000
    store.load(used)
    clock.now = 3601
    for gone in (dropped, idle, "res_00000000", "nonsense"):
        with pytest.raises(ResultGone, match=f"{gone} does not exist in this session .*: run the call again"):
            store.load(gone)
    assert store.load(used) == 3
    assert [entry["handle"] for entry in store.list()] == [used]


def test_over_the_memory_cap_the_least_recently_used_goes_to_disk_and_still_reads(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=250, directory=tmp_path)
    texts = [str(n) * 100 for n in range(3)]
    first, second, third = (store.save(text) for text in texts)
    assert store.memory_used == 200
    assert store.disk_used == 100
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in folder.iterdir()] == [first]
    assert [store.text(handle) for handle in (first, second, third)] == texts


def test_a_temporary_folder_that_a_cleaner_took_away_is_made_again(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=10, directory=tmp_path)
    store.save("x" * 100)
    shutil.rmtree(next(tmp_path.iterdir()))
    handle = store.save("y" * 100)
    assert store.text(handle) == "y" * 100


def test_over_the_disk_cap_the_oldest_unused_goes(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=100, disk_bytes=200, directory=tmp_path)
    handles = [store.save(str(n) * 100) for n in range(5)]
    assert [entry["handle"] for entry in store.list()] == handles[2:]
    with pytest.raises(ResultGone):
        store.load(handles[0])


def test_what_fits_neither_memory_nor_disk_is_refused_and_the_answer_says_so() -> None:
    store = ResultStore(memory_bytes=10, disk_bytes=50)
    with pytest.raises(ResultNotKept, match="100 bytes"):
        store.save("x" * 100)


def test_on_a_full_disk_the_oldest_result_goes_with_a_warning_and_the_new_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    store = ResultStore(memory_bytes=150, directory=tmp_path)
    old = store.save("a" * 100)
    with full_disk():
        new = store.save("b" * 100)
    assert "could not be spilled to disk" in caplog.text
    assert store.text(new) == "b" * 100
    with pytest.raises(ResultGone):
        store.text(old)
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) == []
    newest = store.save("c" * 100)
    assert [store.text(handle)[0] for handle in (new, newest)] == ["b", "c"]


def test_closing_removes_the_files_and_every_handle(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=10, directory=tmp_path)
    handle = store.save("x" * 100)
    store.close()
    store.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ResultGone):
        store.text(handle)
    with pytest.raises(ResultNotKept):
        store.save(1)


def test_a_file_taken_away_from_under_it_is_a_result_that_is_gone(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=10, directory=tmp_path)
    handle = store.save("x" * 100)
    next(next(tmp_path.iterdir()).iterdir()).unlink()
    with pytest.raises(ResultGone, match=handle):
        store.text(handle)


def test_binary_data_comes_back_as_base64_whole_or_in_pieces() -> None:
    store = ResultStore()
    data = base64.b64encode(bytes(range(256)) * 1000).decode()
    ref = store.save_blob(data, "image/png")
    assert store.blob(ref)[0] == data
    assert store.blob(ref) == (data, "image/png")
    assert store.info(ref)["bytes"] == 256_000
    assert json.loads(store.read(ref)[1])["mime_type"] == "image/png"
    assert "".join(walked(store, ref)) == data
    page = json.loads(store.read(ref, 20)[1])
    assert ("".join(page["rows"]), page["next_offset"]) == (data[20 * 4_096 : 24 * 4_096], 24)
    with pytest.raises(InvalidRequest, match="base64"):
        store.load(ref)
    with pytest.raises(InvalidRequest):
        store.save_blob("not base64!", "image/png")
    with pytest.raises(InvalidRequest):
        store.blob(store.save([1]))


def test_a_page_for_the_model_starts_with_the_facts_and_stays_readable() -> None:
    store = ResultStore()
    handle = store.save([{"id": n, "text": "y" * 3000} for n in range(50)])
    mime, text = store.read(handle)
    page = json.loads(text)
    assert mime == "application/json"
    assert page["schema"] == {"id": "integer", "text": "string"}
    assert [row["id"] for row in page["rows"]] == [0, 1, 2, 3, 4, 5]
    following = json.loads(store.read(handle, page["next_offset"])[1])
    assert following["rows"][0]["id"] == 6
    assert "schema" not in following


def test_a_row_longer_than_a_page_comes_in_pieces_that_lead_on() -> None:
    store = ResultStore()
    handle = store.save(["z" * 25_000, "short"])
    page = json.loads(store.read(handle)[1])
    assert page["rows"] == [{"$row": 0, "$piece": 0, "$pieces": 4, "part": '"' + "z" * 7_791}]
    assert (page["next_offset"], page["total_rows"]) == ("0:1", 2)
    following = json.loads(store.read(handle, "0:1")[1])
    third = json.loads(store.read(handle, following["next_offset"])[1])
    last = json.loads(store.read(handle, third["next_offset"])[1])
    assert last["rows"][0]["part"] == "z" * (25_001 - 3 * 7_792) + '"'
    assert json.loads(store.read(handle, last["next_offset"])[1])["rows"] == ["short"]
    with pytest.raises(InvalidRequest, match='there is no "0:4"'):
        store.read(handle, "0:4")


@pytest.mark.parametrize("room", [PAGE, SizeLimit(chars=3_000), SizeLimit(bytes=5_000)])
def test_a_row_that_just_fits_a_page_leads_on_like_one_that_just_does_not(room: SizeLimit) -> None:
    store = ResultStore()
    free = room.plain - ENVELOPE
    for length in range(free - 6, free + 4):
        handle = store.save(["x" * length, "short"])
        offsets: list[Any] = [None]
        rows: list[Any] = []
        while True:
            page = json.loads(store.read(handle, offsets[-1], room=room)[1])
            rows += page["rows"]
            if page["next_offset"] is None:
                break
            assert page["next_offset"] not in offsets
            offsets.append(page["next_offset"])
        told = "".join(row if isinstance(row, str) else row["part"].strip('"') for row in rows)
        assert told == "x" * length + "short"


def test_binary_data_and_typed_arrays_have_no_pieces_of_a_row() -> None:
    store = ResultStore()
    data = base64.b64encode(bytes(40_000)).decode()
    for ref in (store.save_blob(data, "image/png"), store.save_array("Uint8Array", data)):
        for look in (store.read, store.rows, store.chunk):
            with pytest.raises(InvalidRequest, match='there is no "7:1"'):
                look(ref, "7:1")
        assert store.rows(ref, "7:0") == store.rows(ref, 7)


def test_threads_may_save_and_read_at_once() -> None:
    store = ResultStore(memory_bytes=2000)
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for n in range(40):
                text = f"{seed}-{n} " * 30
                assert store.text(store.save(text)) == text
        except BaseException as error:  # noqa: BLE001  # carried to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failed == []


def test_json_text_gives_what_load_gives_without_a_detour() -> None:
    store = ResultStore()
    assert store.json_text(store.save(text='{"b": 1, "a": [1.0]}')) == b'{"b": 1, "a": [1.0]}'
    assert store.json_text(store.save("[1")) == b'"[1"'
    assert store.json_text(store.save(text="plain")) == b'"plain"'


def test_what_was_used_last_stays_in_memory_longest(tmp_path: Path) -> None:
    store = ResultStore(memory_bytes=250, directory=tmp_path)
    first, second = store.save("1" * 100), store.save("2" * 100)
    store.load(first)
    store.save("3" * 100)
    (folder,) = tmp_path.iterdir()
    assert [file.name for file in folder.iterdir()] == [second]


def test_a_field_that_mixes_true_and_one_is_not_counted() -> None:
    store = ResultStore()
    rows = [{"id": n, "mixed": True if n % 2 else 1, "text": "1" if n % 2 else "2"} for n in range(50)]
    assert store.info(store.save(rows))["digest"]["counts"] == {"text": {"2": 25, "1": 25}}


def test_a_typed_array_is_kept_as_bytes_and_read_as_items() -> None:
    store = ResultStore()
    floats = struct.pack("<3d", 1.5, math.nan, -2.0)
    ref = store.save_array("Float64Array", base64.b64encode(floats).decode())
    assert store.load(ref) == [1.5, None, -2.0]
    assert store.json_text(ref) == b"[1.5,null,-2.0]"
    assert base64.b64decode(store.blob(ref)[0]) == floats
    assert store.rows(ref, offset=1, limit=1)["rows"] == store.load(ref)[1:2]
    assert store.rows(ref)["total_rows"] == len(store.load(ref))
    big = store.save_array("BigInt64Array", base64.b64encode(struct.pack("<q", -(2**60))).decode())
    assert store.load(big) == [str(-(2**60))]
    with pytest.raises(InvalidRequest):
        store.save_array("Date", "")


def test_a_page_of_text_has_as_many_lines_as_go_into_it() -> None:
    store = ResultStore()
    text = "".join(f"line {n} of a log\n" for n in range(5000))
    handle = store.save(text)
    lines: list[str] = []
    offset: int | None = 0
    pages = 0
    while offset is not None:
        _, page = store.read(handle, offset)
        assert len(page) <= 20_000
        told = json.loads(page)
        lines += told["rows"]
        offset, pages = told["next_offset"], pages + 1
    assert lines == text.split("\n")[:-1]
    assert pages < 10
    assert len(store.rows(handle)["rows"]) == 40
