"""The starter table: what names say of well-known servers, as a section that a person reviews."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fixtures.daemons import GATEMINI
from fixtures.direct import TESTS, write_config
from gatemini.cli.main import dispatch
from gatemini.config.model.policy import PolicyConfig
from gatemini.policy.flow.starter import KINDS, Known, propose, section

BOTH = ("untrusted", "private")


def labels(name: str, *names: str, tools: tuple[str, ...] = (), closed: bool = False) -> tuple[str, ...]:
    return tuple(label for p in propose([Known(name, (name, *names), tools, closed)]) for label in p.labels)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("fetch", "uvx", "mcp-server-fetch"), ("untrusted",)),
        (("search", "npx", "@modelcontextprotocol/server-brave-search"), ("untrusted",)),
        (("browser", "npx", "@playwright/mcp"), ("untrusted",)),
        (("a", "https://mcp.exa.ai/mcp"), ("untrusted",)),
        (("mail", "npx", "@gongrzhe/server-gmail-autoauth-mcp"), BOTH),
        (("work", "npx", "@modelcontextprotocol/server-slack"), BOTH),
        (("gh", "https://api.githubcopilot.com/mcp/", "github-mcp-server"), BOTH),
        (("tickets", "https://mcp.linear.app/sse"), BOTH),
        (("fs", "npx", "@modelcontextprotocol/server-filesystem"), ("private",)),
        (("repo", "mcp-server-git"), ("private",)),
        (("pg", "npx", "@modelcontextprotocol/server-postgres"), ("private",)),
        (("pay", "npx", "@stripe/mcp"), ("private",)),
        (("myOutlookServer",), BOTH),
        (("clock", "mcp-server-time"), ()),
        (("toolbox",), ()),
    ],
)
def test_a_known_server_is_recognised_by_its_names(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert labels(*names) == expected


def test_tools_that_read_are_recognised_by_their_names() -> None:
    (found,) = propose([Known("corp", ("corp",), ("list_emails", "send_email", "status"))])
    assert (found.globs, found.labels) == (("corp.list_emails",), BOTH)


def test_an_unknown_server_is_named_as_unknown() -> None:
    (found,) = propose([Known("corp", ("corp",), ("run",))])
    assert (found.labels, found.why) == ((), "not known: it counts as open-world, so as untrusted")
    (found,) = propose([Known("corp", ("corp",), ("run",), closed=True)])
    assert found.why == "no label needed by its names"


def test_no_word_means_two_kinds() -> None:
    words = [word for kind in KINDS for word in kind.words]
    assert sorted(words) == sorted(set(words))


def test_the_section_has_no_effect_until_it_is_uncommented() -> None:
    text = section(
        propose([Known("fetch", ("fetch",), ()), Known("fs", ("filesystem",), ()), Known("x", ("x",), ())])
    )
    assert yaml.safe_load(text) is None
    kept = [line.removeprefix("# ") for line in text.splitlines()[2:] if "not known" not in line]
    document = yaml.safe_load("\n".join(kept))
    policy = PolicyConfig.model_validate(document["policy"])
    assert (policy.flow, policy.labels.untrusted, policy.labels.private) == ("ask", ("fetch.*",), ("fs.*",))


def test_init_proposes_labels_for_the_servers_of_a_configuration_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = str(TESTS / "fixtures" / "office_server.py")
    backends = {
        name: {"command": sys.executable, "args": ["-I", "-S", server, name, str(tmp_path / "ledger")]}
        for name in ("mail", "clock")
    }
    config = write_config(tmp_path, backends)
    before = config.read_text()
    monkeypatch.setenv("GATEMINI_CONFIG", "")
    assert dispatch(["init", "--labels", "-c", str(config), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    found = {tuple(each["tools"]): tuple(each["labels"]) for each in answer["proposals"]}
    assert found == {("clock.*",): (), ("mail.*",): BOTH}
    assert config.read_text() == before


@pytest.mark.long
def test_report_and_doctor_name_the_servers_of_which_no_hint_is_believed(tmp_path: Path) -> None:
    server = str(TESTS / "fixtures" / "office_server.py")
    backends = {
        name: {"command": sys.executable, "args": ["-I", "-S", server, name, str(tmp_path / "ledger")]}
        for name in ("clock", "notes", "plain")
    }
    policy = {
        "flow": "deny",
        "trust_annotations": ["clock"],
        "override_annotations": {"notes.*": {"openWorld": False}},
    }
    config = write_config(tmp_path, backends, policy=policy, profile_exceptions={})
    words = [*GATEMINI, "-c", str(config), "--json"]
    done = subprocess.run(
        [*words, "policy", "report"], capture_output=True, text=True, timeout=120, check=True
    )
    found = json.loads(done.stdout)
    assert found["flow"]["untrusted_only_since_unknown"] == ["plain"]
    assert (found["profile"], found["approvals"]["via"]) == ("developer", ["client", "console", "webhook"])
    doctor = subprocess.run([*words, "doctor"], capture_output=True, text=True, timeout=120)
    named = [each["what"] for each in json.loads(doctor.stdout)["findings"] if "untrusted" in each["seen"]]
    assert named == ["backend plain"]
    text = subprocess.run(
        [*words[:-1], "policy", "report"], capture_output=True, text=True, timeout=120
    ).stdout
    assert "data-flow guard deny" in text
    assert "no hint of theirs is believed: plain" in text
    assert "console proves only the user id" in text
