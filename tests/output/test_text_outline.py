"""A long text keeps its ends, and says what is between them."""

from __future__ import annotations

import json
import re

from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore

LOG = "\n".join(
    f"2026-01-01 {'ERROR disk full on node' if n % 500 == 250 else 'INFO request'} {n}" for n in range(4000)
)


def reduced(text: str, **options: int | bool) -> Reduced:
    return reduce_output(text, options=OutputOptions(**options), store=ResultStore())  # type: ignore[arg-type]


def test_a_log_becomes_its_ends_and_its_levels_with_the_first_errors() -> None:
    answer = reduced(LOG)
    assert len(answer.text) <= 12_000
    assert answer.text.startswith(LOG[:1000])
    assert answer.text.endswith(LOG[-1000:])
    assert "log levels: ERROR " in answer.text
    assert "line 251: 2026-01-01 ERROR disk full on node 250\n" in answer.text
    assert answer.footer is not None
    assert "full result: res_" in answer.footer


def test_a_text_is_whole_below_the_threshold_and_where_the_call_names_a_size() -> None:
    assert reduced(LOG[:29_000]).text == LOG[:29_000]
    assert reduced(LOG, named_size=True).text == LOG


def test_a_diff_names_its_files_with_the_lines_they_add_and_remove() -> None:
    def part(name: str) -> str:
        head = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n"
        return head + "".join(f"+new {n}\n" for n in range(300)) + "".join(f"-old {n}\n" for n in range(200))

    answer = reduced("".join(part(f"src/file{n}.py") for n in range(12)))
    assert ": src/file5.py (+300 -200)" in answer.text
    assert len(answer.text) <= 12_000


def test_a_diff_without_lines_of_git_names_its_files_too() -> None:
    def part(name: str) -> str:
        body = "".join(f"+new {n}\n" for n in range(300)) + "".join(f"-old {n}\n" for n in range(200))
        return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n{body}\n"

    gone = "--- a/src/gone.py\n+++ /dev/null\n@@ -1 +0 @@\n-old\n\n"
    answer = reduced("".join([part(f"src/file{n}.py") + (gone if n == 5 else "") for n in range(12)]))
    assert "+++ b/src/file5.py (+300 -200)" in answer.text
    assert "--- a/src/gone.py (+0 -1)" in answer.text


def test_an_outline_says_how_much_of_it_had_no_room() -> None:
    def part(name: str, former: str) -> str:
        head = f"diff --git a/{former} b/{name}\n--- a/{former}\n+++ b/{name}\n@@ -1 +1 @@\n"
        return head + "".join(f"+new line {n} of it\n" for n in range(60))

    folder = "a/folder/with/quite/a/long/name/so/that/few/fit"
    names = [f"{folder}/{n}.py" for n in range(80)]
    answer = reduced("".join(part(name, "old.py" if n == 30 else name) for n, name in enumerate(names)))
    assert f": old.py → {folder}/30.py (+60 -0)\n" in answer.text
    shown = answer.text.count(".py (+60 -0)\n")
    (left,) = re.findall(r"\n  … (\d+) more lines of this outline\n", answer.text)
    between = "".join(answer.text.partition("truncated — showing")[::2])
    ends = between.count("\ndiff --git ") + between.startswith("diff --git ")
    assert shown > 20
    assert shown + int(left) == len(names) - ends, "each file is shown, named or counted"


def test_headings_and_json_inside_a_text_are_described() -> None:
    words = "".join(f"some words of a page, number {n}\n" for n in range(400))
    data = json.dumps({"id": 7, "rows": list(range(300))}, indent=1)
    answer = reduced(f"{words}# Results\n{words}{data}\n## Next\n{words}")
    assert "line 401: # Results\n" in answer.text
    assert "JSON, " in answer.text
    assert "id 7; keys id, rows" in answer.text


def test_lines_of_json_are_counted() -> None:
    answer = reduced("\n".join(json.dumps({"event": "click", "at": n}) for n in range(2000)))
    assert "lines of JSON, the first: keys event, at" in answer.text


def test_json_as_a_text_in_an_object_is_described_and_not_shown_as_escapes() -> None:
    inner = json.dumps([{"id": n, "name": f"item {n}"} for n in range(900)])
    answer = reduced(json.dumps({"content": inner, "ok": True}))
    assert "JSON as text: array of 900" in answer.text
    assert "\\\\" not in answer.text
    assert len(answer.text) < 600


def test_of_a_very_long_text_the_first_part_between_its_ends_is_outlined() -> None:
    words = "some words of a page\n" * 100_000
    answer = reduced(f"{words[:21_000]}# Near\n{words}# Far\n{words[:21_000]}")
    assert "  in the first million characters between the ends:\n" in answer.text
    assert ": # Near\n" in answer.text
    assert "# Far" not in answer.text
    assert len(answer.text) <= 12_000
