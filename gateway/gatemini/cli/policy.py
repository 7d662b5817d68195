"""`gatemini policy test | explain | report`: what the rules let happen, without a client."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.text.escape import visible
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.config.load import Loaded
    from gatemini.config.model.policy import Transport
    from gatemini.policy.offline import Case, Judge, Judged
    from gatemini.policy.principal import Principal

TRANSPORTS = ("stdio", "socket", "http", "cli")
_SIGNED = (
    "transport",
    "command",
    "args",
    "cwd",
    "url",
    "module",
    "namespace",
    "tags",
    "tools",
    "fallback_chain",
)
"""What a report says of a backend: what is started or reached, and under which name."""


def test(*, file: Path, config: Path | None, as_json: bool) -> int:
    """Check a table of calls and clients against what must become of each."""
    cases, judge = _cases(file), _judge(config)
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(cases, 1):
        rows.append(_result(number, case, judge))
    failed = [row for row in rows if "failure" in row]
    if as_json:
        shell.emit({"ok": not failed, "revision": judge.door.revision, "cases": rows})
    else:
        for row in failed:
            shell.say(visible(f"case {row['case']}: {row['call']}: {row['failure']}"))
        shell.say(f"{len(rows) - len(failed)} of {counted(len(rows), 'case')} as expected")
    return shell.FAILED if failed else shell.OK


def _cases(file: Path) -> list[Case]:
    import yaml
    from pydantic import TypeAdapter, ValidationError

    from gatemini.errors import InvalidRequest
    from gatemini.policy.offline import Case

    try:
        return TypeAdapter(list[Case]).validate_python(yaml.safe_load(file.read_text("utf-8")))
    except yaml.YAMLError as error:
        raise InvalidRequest(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{file} is not text") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = f"case {int(first['loc'][0]) + 1}" if first["loc"] else "the file"
        key = ".".join(map(str, first["loc"][1:]))
        raise InvalidRequest(
            f"{file}: {where}{f', {key}' if key else ''}: {first['msg']}",
            hint="a list of {call, arguments, client, expect}; docs/reference/cli.md has an example",
        ) from None


def _result(number: int, case: Case, judge: Judge) -> dict[str, Any]:
    from gatemini.errors import GateminiError
    from gatemini.policy.limits.budgets import Counts
    from gatemini.policy.offline import failure

    row: dict[str, Any] = {"case": number, "call": case.call, "expect": case.expect}
    counts = Counts(case.session.calls, case.session.writes)
    who = case.client.principal()
    try:
        judged = judge.judge(
            case.call, case.arguments, who, annotations=case.annotations, at=case.at, counts=counts
        )
    except GateminiError as error:
        return {**row, "failure": error.message}
    row |= {"action": judged.decision.action, "rule": judged.decision.rule}
    wrong = failure(case, judged)
    return row if wrong is None else {**row, "failure": wrong}


def explain(
    *,
    tool: str,
    arguments: str,
    client: str,
    scope: Sequence[str],
    transport: Transport,
    config: Path | None,
    as_json: bool,
) -> int:
    """Name the rule that decides about a call."""
    from dataclasses import replace

    from gatemini.policy.principal import local

    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise shell.UsageError(f"gatemini policy explain: ARGUMENTS is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise shell.UsageError("gatemini policy explain: ARGUMENTS must be a JSON object")
    judge = _judge(config)
    who = replace(local(transport, client), scopes=frozenset(scope))
    judged = judge.judge(tool, given, who)
    if as_json:
        shell.emit(_as_json(judge, judged))
    else:
        _explained(judged, who)
    return shell.OK


def _as_json(judge: Judge, judged: Judged) -> dict[str, Any]:
    from dataclasses import asdict

    decision = judged.decision
    answer: dict[str, Any] = {
        "tool": judged.facts.qualified,
        "known": judged.known,
        "hints": asdict(judged.facts.hints),
        "action": decision.action,
        "rule": decision.rule,
        "reason": decision.reason,
        "rules": [{"rule": rule, "result": result} for rule, result in judged.steps],
        "revision": judge.door.revision,
    }
    if decision.action == "ask":
        answer["ask"] = {"remember": decision.ask.remember, "via": list(decision.ask.via)}
    return answer


def _explained(judged: Judged, who: Principal) -> None:
    from gatemini.policy.report import hints_text

    decision, facts = judged.decision, judged.facts
    why = f": {decision.reason}" if decision.reason else ""
    shell.say(visible(f"{decision.action} by {decision.rule}{why}"))
    known = "" if judged.known else " (not listed in an earlier run: taken as unannotated)"
    shell.say(visible(f"{facts.qualified}: {hints_text(facts.hints)}{known}"))
    shell.say(visible(f"client {who.client or 'without a name'} ({who.id}), {who.transport}"))
    for rule, result in judged.steps:
        shell.say(visible(f"  {rule} {result}"))


def _judge(config: Path | None) -> Judge:
    """The policy of the configuration, with the tools that earlier runs have seen."""
    from gatemini.backends.transports.composite import composite_tools
    from gatemini.cache import Cache
    from gatemini.config.load import load_config
    from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
    from gatemini.policy.offline import Judge
    from gatemini.registry import Registry
    from gatemini.upkeep.known_backends import KnownBackends

    loaded = load_config(config, environ=os.environ)
    cache, registry = Cache(loaded.config.cache_path), Registry()
    cache.load()
    known = KnownBackends(cache, registry)
    for backend in loaded.config.backends.values():
        known.configured(backend, loaded)
        known.restore(backend.name)
    registry.set_aliases(loaded.config.aliases)
    if loaded.config.composite_tools:
        registry.replace(COMPOSITE_BACKEND, composite_tools(loaded.config.composite_tools))
    return Judge(loaded.config, registry)


def report(*, config: Path | None, as_json: bool) -> int:
    """Print what can be reached, by whom, under which rule, with a hash to sign."""
    from gatemini.cli.open_gateway import settle, with_app

    async def action(gateway: App) -> dict[str, Any]:
        from gatemini.policy.report import report

        await settle(gateway)
        found = report(gateway.loaded.config, gateway.registry.all_tools(), _backends(gateway.loaded))
        if missing := (await gateway.readiness.unlisted(0)).note():
            found["note"] = missing  # not signed: it is about this run
        return found

    found = with_app(config, action)
    if as_json:
        shell.emit(found)
    else:
        _reported(found)
    return shell.FAILED if "note" in found else shell.OK


def _backends(loaded: Loaded) -> dict[str, dict[str, Any]]:
    from gatemini.cli.config import masked

    plain = masked(loaded, all_keys=False)["backends"]
    signed = {name: {k: v for k, v in keys.items() if k in _SIGNED} for name, keys in plain.items()}
    return {**signed, **{name: {"disabled": why} for name, why in loaded.disabled.items()}}


def _reported(found: dict[str, Any]) -> None:
    policy = found["policy"]
    shell.say(f"policy revision {policy}" if policy else "no policy: every call is allowed")
    _say_profile(found)
    shell.say("\nbackends")
    for name, keys in found["backends"].items():
        shell.say(visible(f"  {name}: {_line(keys)}"))
    shell.say(visible(f"registration by agents: {_line(found['registration'])}"))
    grouped: dict[str, list[str]] = {}
    for row in found["tools"]:
        grouped.setdefault(_decided(row["decisions"]), []).append(f"{row['tool']} ({row['hints']})")
    for decided, tools in grouped.items():
        shell.say("")
        shell.say(visible(decided))
        for tool in tools:
            shell.say(visible(f"  {tool}"))
    if found["rules_without_effect"]:
        shell.say(
            f"\nrules that decide about no tool there is now: {', '.join(found['rules_without_effect'])}"
        )
    if budgets := found["budgets"]:
        shell.say(f"\nbudgets of a session: {_line(budgets)}")
    shell.say(f"\nsha256 {found['hash']}")
    if "note" in found:
        shell.note(f"not complete: {found['note']}")


def _say_profile(found: dict[str, Any]) -> None:
    """Print the profile with its exceptions, who may approve, and the data-flow guard."""
    shell.say(f"profile {found['profile']}")
    for key, reason in found["profile_exceptions"].items():
        shell.say(visible(f"  exception {key}: {reason}"))
    via = found["approvals"]["via"]
    shell.say(f"approvals by {', '.join(via)}")
    if "console" in via:
        shell.say(
            "  console proves only the user id: whoever runs commands as you can approve, the agent too"
        )
    if "client" in via:
        shell.say("  client proves only that the client says yes")
    flow = found["flow"]
    shell.say(f"data-flow guard {flow['flow']}")
    if flow["flow"] != "off":
        for label, tools in flow["labels"].items():
            shell.say(visible(f"  {label}: {', '.join(tools) or 'no tools named'}"))
        for rule in flow["declassify"]:
            shell.say(visible(f"  declassified for {', '.join(rule['labels'])}: {', '.join(rule['tools'])}"))
        if unknown := flow["untrusted_only_since_unknown"]:
            shell.say(
                visible(
                    f"  make a session untrusted only since no hint of theirs is believed: {', '.join(unknown)}"
                )
            )


def _line(keys: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in keys.items()
    )


def _decided(decisions: Sequence[dict[str, Any]]) -> str:
    """`allow if /to pattern … (policy.rules[2]); else deny (policy.default)`."""
    return "; else ".join(
        f"{step['action']}{' if ' + ' and '.join(step['if']) if 'if' in step else ''} ({step['rule']})"
        for step in decisions
    )


COMMANDS = (
    shell.Command(
        "test", test, [shell.argument("file", type=Path, help="YAML: a list of calls with `expect`")]
    ),
    shell.Command(
        "explain",
        explain,
        [
            shell.argument("tool", help="backend.tool"),
            shell.argument("arguments", nargs="?", default="{}", help="JSON object"),
            shell.argument("--client", default="", metavar="NAME", help="the client's name"),
            shell.argument("--scope", action="append", default=[], help="a scope of its token; repeatable"),
            shell.argument("--transport", choices=TRANSPORTS, default="stdio", help="how it is connected"),
        ],
    ),
    shell.Command("report", report),
)
