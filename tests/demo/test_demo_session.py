"""`gatemini demo` in a process: the steps on the screen, exit code 0."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60
"""Bounds one run, first-time compiling included."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what the demo prints while the user has a configuration, which the demo must not use."""
    home = tmp_path_factory.mktemp("home")
    config = home / "config.yaml"
    config.write_text("backends: {mine: {command: no-such-program}}\n")
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "gatemini", "demo"],
        env=os.environ | {"GATEMINI_CONFIG": str(config), "COLUMNS": "120", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_steps_come_in_the_order_an_agent_takes_them(demo: str) -> None:
    places = [
        demo.index(step)
        for step in (
            "search_tools:",
            "tool_info:",
            "call_tool_chain:",
            "the answer",
            "a mistake",
            "a large",
            "what it cost",
        )
    ]
    assert places == sorted(places)


def test_the_program_on_the_screen_is_the_one_that_ran(demo: str) -> None:
    program = (Path(__file__).parents[2] / "gateway" / "gatemini" / "demo" / "call_list.ts").read_text()
    for feature in ("interface ", "for (const ", "Promise.all", "shop.", "clock.", "notes."):
        assert feature in program
    squeezed = re.sub(r"\s+", "", demo)
    assert all(re.sub(r"\s+", "", line) in squeezed for line in program.splitlines())


def test_the_answer_came_from_the_shop_and_the_clock(demo: str) -> None:
    assert '"ring_now"' in demo
    assert re.search(r"\b3\d calls at the backends in \d+ ms", demo)


def test_a_mistake_is_answered_with_what_would_be_right(demo: str) -> None:
    assert "order_id" in demo[demo.index("a mistake") : demo.index("a large result")]


def test_a_large_result_is_read_on_by_its_handle(demo: str) -> None:
    part = demo[demo.index("a large result") : demo.index("what it cost")]
    assert len(set(re.findall(r"res_[0-9a-f]{8}", part))) == 1
    assert re.search(r'\{"id": ?1,"customer_id"', part.replace(" ", ""))


def test_the_saving_is_counted_from_the_messages_of_this_session(demo: str) -> None:
    numbers = re.findall(r"^\s*([\d,]+)\s+tokens ", demo, re.MULTILINE)
    schemas, saved, session = (int(number.replace(",", "")) for number in numbers)
    assert schemas > 1000
    assert saved > 10 * session > 0


def test_a_users_own_backends_stay_out_of_the_demo(demo: str) -> None:
    assert "no-such-program" not in demo


def test_a_reader_that_leaves_early_sees_no_traceback() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-P", "-m", "gatemini", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    assert demo.stderr is not None
    assert "gatemini demo" in demo.stdout.readline()
    demo.stdout.close()
    assert demo.stderr.read() == ""
    assert demo.wait(SECONDS) == 0
    demo.stderr.close()
