"""Aliases and composite tools that name what is not there are findings."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from gatemini.config.load import Loaded

Load = Callable[..., Loaded]
BACKENDS = "backends: {clock: {command: x}, files-eu: {command: y, namespace: eu}, gone: {command: z, disabled: true}}\n"


def found(load: Load, text: str) -> list[str]:
    loaded = load(BACKENDS + textwrap.dedent(text))
    assert loaded.errors == ()
    return [problem.text().partition("config.yaml:")[2] for problem in loaded.problems]


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


def test_backends_that_composite_tools_call_must_be_there(load: Load) -> None:
    text = """\
        composite_tools:
          wrong:
            code: |
              const { sum } = await demo.add({ a: args.a });
              return [await demo.add({}), await clok.now({}), sum.toFixed(2)];
          fine:
            code: |
              const rows = [await clock.now({}), await eu.get({}), await gone.x({}), await composite.wrong({})];
              console.log(Object.keys(rows), JSON.stringify(rows));
              return results.save(rows.map((row) => row.time));
    """
    assert found(load, text) == [
        "4: composite_tools.wrong.code: line 1 calls demo.add, and there is no backend demo",
        "4: composite_tools.wrong.code: line 2 calls clok.now, and there is no backend clok, did you mean clock?",
    ]
