"""The page of the context tools: its request, made and measured as it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "context.md").read_text()


COMMAND = re.compile(r"^\$ gatemini context ([^\n]*) < request\.json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the request of the page."""
    made = tmp_path_factory.mktemp("page")
    (example,) = re.findall(r"^```python\n(import json\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    subprocess.run([sys.executable, "-c", example], cwd=made, check=True)
    return made


@pytest.mark.parametrize(("words", "shown"), COMMAND.findall(PAGE))
def test_each_command_of_the_page_says_what_the_page_shows(folder: Path, words: str, shown: str) -> None:
    with (folder / "request.json").open("rb") as request:
        ran = subprocess.run(
            [sys.executable, "-m", "gatemini", "context", *shlex.split(words)],
            cwd=folder,
            stdin=request,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
    parts = [re.sub("res_[0-9a-f]{8}", "res_", part).strip() for part in shown.split("…")]
    written = re.sub("res_[0-9a-f]{8}", "res_", ran.stdout)
    assert re.fullmatch(".*".join(map(re.escape, parts)), written.strip(), re.DOTALL), written[-800:]


def test_the_meter_draws_a_picture(folder: Path) -> None:
    command = [sys.executable, "-m", "gatemini", "context", "meter", "--plot"]
    with (folder / "request.json").open("rb") as request:
        subprocess.run(command, cwd=folder, stdin=request, capture_output=True, check=True)
    picture = ElementTree.fromstring((folder / "context-meter.svg").read_text())
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [12, 12, 12, 12]
