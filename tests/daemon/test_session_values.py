"""What a client brings for the backends that name it: its folder, and the variables that the configuration lists."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import LEDGER, Home, ProxyClient
from fixtures.daemons import home as made

WHERE = {"command": "pwd", "annotations": {"readOnlyHint": True}}
TELLS = {
    "command": ["sh", "-c", "echo $${TOKEN-unset} $${OTHER-unset}"],
    "annotations": {"readOnlyHint": True},
}


def backends() -> dict[str, Any]:
    return {
        "ledger": {
            "command": sys.executable,
            "args": ["-I", "-S", str(LEDGER), "${session.cwd}/ledger"],
        },
        "place": {"cwd": "${session.cwd}", "tools": {"where": WHERE}},
        "token": {"env": {"TOKEN": "${TOKEN}"}, "inherit_env": ["OTHER"], "tools": {"tells": TELLS}},
    }


def folder(home: Home, name: str) -> Path:
    made = home.root / name
    made.mkdir()
    return made


def lines(client: ProxyClient, tool: str) -> str:
    return str(client.value(client.call(tool))).strip()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with made() as found:
        found.write_config(
            backends=backends(), daemon={"session_env": ["TOKEN", "OTHER"], "idle_timeout": "10m"}
        )
        yield found


@pytest.mark.proves("daemon.session_env")
def test_each_client_has_instances_in_its_folder_and_with_its_variables(home: Home) -> None:
    one, two = folder(home, "one"), folder(home, "two")
    first = home.client(cwd=one, environ={"TOKEN": "alpha-token", "OTHER": "a", "THIRD": "x"})
    second = home.client(cwd=two, modern=True, environ={"TOKEN": "beta-token"})
    for client, cwd in ((first, one), (second, two)):
        client.greet()
        assert lines(client, "place.where") == str(cwd)
        client.value(client.call("ledger.write", key=cwd.name))
        assert (cwd / "ledger").read_text().split() == [cwd.name]
    # Values of session variables are hidden in answers, as all secrets are.
    assert lines(first, "token.tells") == "«secret TOKEN» a"
    assert lines(second, "token.tells") == "«secret TOKEN» unset"
    asked = [
        first.chain("return (await token.tells({})).length"),
        second.chain("return (await token.tells({})).length"),
    ]
    assert [c.value(i) for c, i in zip((first, second), asked, strict=True)] == [13, 16]
    status = home.serving()
    assert status["variables_differ"] == []


def test_a_client_without_a_variable_gets_the_reason(home: Home) -> None:
    able, lacking = home.client(environ={"TOKEN": "alpha-token"}), home.client()
    able.greet()
    assert lines(able, "token.tells") == "«secret TOKEN» unset"
    lacking.greet()
    answer = lacking.answer(lacking.call("token.tells"))["result"]
    assert answer["isError"] is True
    assert "token needs the variable TOKEN of its client, which has none" in answer["content"][0]["text"]
