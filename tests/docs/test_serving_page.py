"""The page about serving: its two replicas, set up and used as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.ports import free_port
from fixtures.replicas import HAPROXY

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "serving.md").read_text()
SECTION = PAGE.partition("## Two replicas in ten minutes\n")[2].partition("\n## ")[0]
END = (
    "set +e; kill -9 $(jobs -p) $(cat haproxy.pid) 2>/dev/null; redis-cli -s redis.sock shutdown 2>/dev/null"
)
"""Ends what a failed command leaves."""
NEEDED = ("redis-server", "redis-cli", "openssl", "curl", "bash")


@pytest.mark.long
@pytest.mark.skipif(
    HAPROXY is None or not all(map(shutil.which, NEEDED)), reason=f"needs haproxy, {', '.join(NEEDED)}"
)
def test_two_replicas_are_set_up_by_the_commands_of_the_page(tmp_path: Path) -> None:
    ports = {port: str(free_port()) for port in ("8080", "8081", "8082")}

    def own(text: str) -> str:
        """The text with ports and a socket that no other test uses."""
        text = text.replace("/tmp/gatemini-redis.sock", str(tmp_path / "redis.sock"))
        return re.sub(r"\b(808[012])\b", lambda found: ports[found[1]], text)

    for name, text in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(own(text))
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "haproxy.cfg", "check.py"}
    blocks = re.findall(r"^```console\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    install, *used = ([line[2:] for line in block.splitlines() if line.startswith("$ ")] for block in blocks)
    assert install[-1] == "mkdir ~/replicas && cd ~/replicas"
    commands = [own(line) for block in used for line in block]
    ran = _run(["set -e", f"trap '{END}' EXIT", *commands], tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    shown = re.findall(r"^(?:legacy|2026-07-28|\{).*$", "\n".join(blocks[1:]), re.MULTILINE)
    assert [line for line in ran.stdout.splitlines() if line in shown] == shown, ran.stdout


def _run(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    programs = [str(Path(sys.executable).parent), str(Path(HAPROXY or "").parent), os.environ["PATH"]]
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("XDG_", "GATEMINI_", "PYTEST_"))}
    return subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env={**kept, "PATH": os.pathsep.join(programs), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
