"""List the tools that a configuration allows, for which clients, by which rules; with a hash that reviewers sign."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from gatemini.config.model.policy import ArgumentMatcher, PolicyConfig
from gatemini.config.model.schema import Config
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND, short_name, spoken
from gatemini.model import GET_PROMPT, LIST_RESOURCES, READ_RESOURCE, Json, Tool, member
from gatemini.policy.door import Door
from gatemini.policy.facts import Hints
from gatemini.policy.flow.guard import only_unknown
from gatemini.policy.rules.rules import NOT_READ_ONLY, CompiledRule, Rules


def report(config: Config, tools: Iterable[Tool], backends: Mapping[str, Json]) -> Json:
    """Return the report. `backends` is how each is started or reached, without secrets.

    Two reports have the same hash exactly if everything else in them is equal.
    """
    policy = config.policy or PolicyConfig()
    door = Door(policy)
    tools = list(tools)
    known = sorted([*tools, *_members(config)], key=lambda tool: (tool.qualified, tool.backend))
    rows = [_row(door, tool) for tool in known]
    used = {step["rule"] for row in rows for step in row["decisions"]}
    body: Json = {
        "policy": None if config.policy is None else door.revision,
        "read_only": policy.read_only,
        "trust_annotations": list(policy.trust_annotations),
        "budgets": policy.budgets.model_dump(exclude_none=True),
        "profile": config.profile,
        "profile_exceptions": dict(sorted(config.profile_exceptions.items())),
        "approvals": policy.approvals.model_dump(mode="json", exclude_none=True),
        "flow": {
            "flow": policy.flow,
            "labels": policy.labels.model_dump(mode="json"),
            "declassify": [rule.model_dump(mode="json") for rule in policy.declassify],
            "untrusted_only_since_unknown": only_unknown(tools, door.rules.hints),
        },
        "registration": config.registration.model_dump(mode="json"),
        "backends": {name: dict(backends[name]) for name in sorted(backends)},
        "composite_tools": {
            name: hashlib.sha256(tool.code.encode("utf-8", "replace")).hexdigest()
            for name, tool in sorted(config.composite_tools.items())
        },
        "aliases": dict(sorted(config.aliases.items())),
        "tools": rows,
        "rules_without_effect": [rule.name for rule in door.rules.rules if rule.name not in used],
    }
    return {**body, "hash": hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()}


def _members(config: Config) -> list[Tool]:
    """The reading of resources and prompts of each backend."""
    return [
        member(name, reading, backend.namespace, backend.tags)
        for name, backend in config.backends.items()
        for reading in (READ_RESOURCE, LIST_RESOURCES, GET_PROMPT)
    ]


def _row(door: Door, tool: Tool) -> Json:
    hints = door.rules.hints.of(tool)
    name = spoken(tool.qualified) if tool.backend == COMPOSITE_BACKEND else tool.qualified
    return {
        "tool": short_name(name),
        "hints": hints_text(hints),
        "decisions": _decisions(door.rules, tool, hints),
    }


def hints_text(hints: Hints) -> str:
    """Return what a tool may do, in words."""
    if hints.read_only:
        return "read-only, open-world" if hints.open_world else "read-only"
    words = ["destructive" if hints.destructive else "changes things"]
    words += ["open-world"] if hints.open_world else []
    words += ["idempotent"] if hints.idempotent else []
    return ", ".join(words)


def _decisions(rules: Rules, tool: Tool, hints: Hints) -> list[Json]:
    """The rules about a tool in order, each with its conditions, up to the first without any."""
    if rules.config.read_only and not hints.read_only:
        return [{"action": "deny", "rule": NOT_READ_ONLY.rule}]
    covering = rules.covering(tool.backend, tool.name, tool.qualified, tool.tags, hints)
    found = [_decision(rule) for rule in covering]
    if covering and not conditions_of(covering[-1]):
        return found
    return [*found, {"action": rules.default.action, "rule": rules.default.rule}]


def _decision(rule: CompiledRule) -> Json:
    decision: Json = {"action": rule.rule.action, "rule": rule.name}
    if conditions := conditions_of(rule):
        decision["if"] = conditions
    return decision


def conditions_of(rule: CompiledRule) -> list[str]:
    """Return what a rule demands of client, time and arguments, in words."""
    given = rule.rule
    found = [f"client {' or '.join(given.clients)}"] if given.clients else []
    found += [f"scopes {' and '.join(given.scopes)}"] if given.scopes else []
    found += [f"transport {' or '.join(given.transport)}"] if given.transport else []
    found += [f"hours {' or '.join(given.hours)}"] if given.hours else []
    found += [f"{pointer or 'arguments'} {_matcher(m)}" for pointer, m in (given.arguments or {}).items()]
    found += [f"when {given.when}"] if given.when else []
    return found


def _matcher(matcher: ArgumentMatcher) -> str:
    words: list[str] = []
    given: Mapping[str, Any] = matcher.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for kind, value in given.items():
        words.append(f"{kind} {value if isinstance(value, str) else orjson.dumps(value).decode()}")
    return " and ".join(words)
