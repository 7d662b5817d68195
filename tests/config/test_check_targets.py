"""Aliases and composite tools that name what is not there are findings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable

import pytest

from gatemini.config.load import Loaded

Load = Callable[..., Loaded]
BACKENDS = "backends: {clock: {command: x}, files-eu: {command: y, namespace: eu}, gone: {command: z, disabled: true}}\n"


def found(load: Load, text: str) -> list[str]:
    loaded = load(BACKENDS + textwrap.dedent(text))
    assert loaded.errors == ()
    return [problem.text().partition("config.yaml:")[2] for problem in loaded.problems]


def test_rules_must_be_about_backends_that_are_there(load: Load) -> None:
    text = """\
        policy:
          trust_annotations: [clok, "*"]
          override_annotations: {eu.get: {readOnly: true}, eux.get: {readOnly: true}}
          rules:
            - {tools: [clok.now, clock.*, eu.x, files-eu.x, gone.x, composite.one], action: deny}
            - {tools: ["*.delete_*", "cl?k.now", "[cg]*.x"], action: deny}
    """
    assert found(load, text) == [
        "3: policy.trust_annotations[0]: there is no backend clok, did you mean clock?",
        "4: policy.override_annotations.eux.get: there is no backend eux, did you mean eu?",
        "6: policy.rules[0].tools[0]: there is no backend clok, did you mean clock?",
    ]


def test_targets_of_aliases_must_be_of_a_backend_that_is_there(load: Load) -> None:
    text = """\
        aliases:
          a: clok.now
          c: composite.on
          d: xyzzy.plugh
          fine: clock.now
          space: eu.get
          backend: files-eu.get
          off: gone.x
          own: composite.one
          kept: __composite.one
        composite_tools:
          one: {code: "return 1"}
    """
    assert found(load, text) == [
        "3: aliases.a: there is no backend clok, did you mean clock?",
        "4: aliases.c: there is no composite tool on, did you mean one?",
        "5: aliases.d: there is no backend xyzzy",
    ]


@pytest.mark.parametrize("name", ["", " ", "a ", "\ta", "a\nb", "a\u202eb", "\x1b[31m", "a\u200b"])
@pytest.mark.parametrize("section", ["aliases", "composite_tools"])
def test_an_alias_or_composite_tool_without_a_visible_name_is_left_out(
    load: Load, name: str, section: str
) -> None:
    entry = "clock.now" if section == "aliases" else {"description": "d", "code": "return 1"}
    config = {"backends": {"clock": {"command": "x"}}, section: {name: entry, "fine": entry}}
    loaded = load(json.dumps(config), name="config.json")
    assert list(getattr(loaded.config, section)) == ["fine"]
    assert "found the name" in "".join(problem.text() for problem in loaded.problems)
