"""The page of the context tools: its request, made and measured as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "context.md").read_text()


def test_the_request_of_the_page_costs_what_the_page_shows(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```python\n(import json\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(
        r"^\$ gatemini context meter --plot [^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, check=True)
    with (tmp_path / "request.json").open("rb") as request:
        ran = subprocess.run(
            [sys.executable, "-m", "gatemini", "context", "meter", "--plot"],
            cwd=tmp_path,
            stdin=request,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
    assert ran.stdout == shown
    picture = ElementTree.fromstring((tmp_path / "context-meter.svg").read_text())
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [8, 8, 8, 8]
