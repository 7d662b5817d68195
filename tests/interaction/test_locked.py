"""`gatemini init --profile locked`: the configuration that it writes, and a gateway that runs with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from fixtures.daemons import GATEMINI
from fixtures.direct import TESTS, chain_value, run_chain, text_of
from gatemini.cli import starters
from gatemini.config.load import load_config

pytestmark = pytest.mark.anyio


def environ(home: Path, *, servers: bool) -> dict[str, str]:
    """The variables of an empty home, with the programs of this environment on the path or without."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}" if servers else ""
    return {"HOME": str(home), "PATH": f"{beside}/usr/bin:/bin", "LANG": "C.UTF-8"}


def gatemini(home: Path, *words: str, servers: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GATEMINI, *words],
        env=environ(home, servers=servers),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "file.txt").write_text("hello\n")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first commit"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)
    return folder


def test_it_passes_the_check_in_an_empty_home(tmp_path: Path) -> None:
    made = gatemini(tmp_path, "init", "--profile", "locked", "--json")
    assert json.loads(made.stdout)["backends"] == ["time", "git"]
    checked = gatemini(tmp_path, "config", "check", "--json")
    assert checked.returncode == 0, checked.stdout
    found = json.loads(checked.stdout)
    assert (found["problems"], found["absent_programs"]) == ([], {})


def test_it_passes_without_the_servers_which_are_commented_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starters, "_program", lambda name: None)
    path = tmp_path / "config.yaml"
    path.write_text(starters.locked())
    path.chmod(0o600)
    loaded = load_config(path, environ={})
    assert (loaded.problems, loaded.config.backends, loaded.config.profile) == ((), {}, "locked")
    text = "".join(
        line.removeprefix("# ").removeprefix("#") if line.startswith("#") else line
        for line in starters.locked().partition("backends: {}\n")[2].splitlines(keepends=True)
    )
    path.write_text(f"profile: locked\n{text}")
    assert not load_config(path, environ={}).problems


def checklist() -> list[tuple[list[str], int, str]]:
    """The commands of docs/security.md: words, exit code, and what they print."""
    section = (TESTS.parent / "docs" / "security.md").read_text().partition("### How to check an install")[2]
    rows = re.findall(r"^\| `gatemini (.+?)` \| (\d) \| `(.+?)`", section.partition("\n## ")[0], re.MULTILINE)
    return [(command.split(" ", 3), int(code), said) for command, code, said in rows]


@pytest.mark.long
def test_it_passes_the_checklist_of_the_documentation(tmp_path: Path) -> None:
    assert gatemini(tmp_path, "init", "--profile", "locked").returncode == 0
    assert gatemini(tmp_path, "pin").returncode == 0
    rows = checklist()
    assert len(rows) == 10
    for words, code, said in rows:
        done = gatemini(tmp_path, *words)
        assert (done.returncode, said in done.stdout + done.stderr) == (code, True), (words, done)
    assert "exception" not in gatemini(tmp_path, "policy", "report").stdout


@pytest.mark.long
async def test_its_gateway_lets_the_two_servers_read_and_nothing_else(
    tmp_path: Path, repository: Path
) -> None:
    assert gatemini(tmp_path, "init", "--profile", "locked").returncode == 0
    assert "approved git" in gatemini(tmp_path, "pin").stdout
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "gatemini", "--direct"],
        env=environ(tmp_path, servers=True),
        cwd=str(tmp_path),
    )
    with (tmp_path / "stderr.log").open("w") as errlog:
        async with Client(stdio_client(parameters, errlog=errlog)) as client:
            code = f"""const at = await time.get_current_time({{ timezone: "UTC" }});
            const log = await git.git_log({{ repo_path: {json.dumps(str(repository))}, max_count: 1 }});
            const later = await time.get_current_time({{ timezone: "Europe/Berlin" }});
            return [at, log, later].map((one) => JSON.stringify(one)).join("\\n");"""
            text = str(await chain_value(client, code, timeout=60000))
            assert "UTC" in text
            assert "first commit" in text
            assert "Europe/Berlin" in text
            add = json.dumps(
                {"tool": "git.git_add", "arguments": {"repo_path": str(repository), "files": ["x"]}}
            )
            refused = await run_chain(client, add)
            assert refused.is_error
            assert "PolicyDenied: git.git_add is denied by policy." in text_of(refused)
            registered = await client.call_tool(
                "register_manual", {"manual_call_template": {"name": "x", "command": "true"}}
            )
            assert registered.is_error
    verified = gatemini(tmp_path, "audit", "verify", "--json")
    assert verified.returncode == 0, verified.stdout
    calls = json.loads(gatemini(tmp_path, "audit", "show", "--kind", "intent", "--json").stdout)["records"]
    assert [call["tool"] for call in calls] == [
        "time.get_current_time",
        "git.git_log",
        "time.get_current_time",
    ]
