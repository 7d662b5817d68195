"""Check the sections of our own format, each by itself, so that one error does not hide another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gatemini.config.documents.document import Document
from gatemini.config.model.schema import CompositeTool, Config
from gatemini.config.problems import NOT_BUILT, KeyPath, Problem, closest, dotted, explain, unknown_key
from gatemini.config.variables.interpolate import Reference, TemplateError, expand, parse_template
from gatemini.text.escape import visible
from gatemini_sandbox.check import check_codes

PROTECTING = frozenset(
    (
        "registration",
        "sandbox",
        "secrets",
        "policy",
        "profile",
        "profile_exceptions",
        "audit",
        "http",
        "state",
    )
)
"""Sections that limit what may happen: an error in one stops the start, defaults never replace it."""
_LEFT_OUT_ALONE = frozenset(("aliases", "composite_tools"))
"""Sections of which a wrong entry is left out and the others stay."""
_LITERAL = frozenset((("policy",), ("state", "keys")))
"""Keys without variables."""
SHOWN_LINE = 80
"""Characters shown of a wrong line of a composite tool's code."""


class Sections:
    """The checked sections of all files, and what is wrong with them."""

    def __init__(self, environ: Mapping[str, str], problems: list[Problem]) -> None:
        self.environ = environ
        self.problems = problems
        self.fatal: list[Problem] = []
        """Errors in sections that protect."""
        self.values: dict[str, Any] = {}
        self.faulty: dict[str, str] = {}
        """Composite tool → what is wrong with its code."""
        self.writers: dict[KeyPath, Document] = {}
        """The file of each alias in force."""

    def report(self, problem: Problem, section: str, *, stops: bool = False) -> None:
        """Keep a finding. Errors in sections that protect stop the start; `stops` says that this one does too."""
        (self.fatal if stops or section in PROTECTING else self.problems).append(problem)

    def faults(self, document: Document) -> None:
        """Duplicate keys and the like outside of single backends."""
        for fault in document.faults:
            if len(fault.path) < 2 or fault.path[0] != "backends":
                place = (str(document.path), fault.line, dotted(fault.path))
                self.report(Problem(*place, fault.found, "", fault.remedy), str(*fault.path[:1]))

    def add(self, document: Document, key: str, value: Any) -> None:
        """Any section but `backends`."""
        if key not in Config.model_fields:
            self._unknown(document, key)
        elif key in _LEFT_OUT_ALONE:
            self._per_entry(document, key, value)
        else:
            value = {} if value is None and key != "cache_path" else value
            value = self._expand(document, value, (key,))
            checked = self._checked(document, key, value)
            if checked is not None:
                self.values[key] = checked

    def _unknown(self, document: Document, key: str) -> None:
        known = [name for name in Config.model_fields if name not in NOT_BUILT]
        found, allowed, remedy = unknown_key(key, known)
        client = closest(key, ("mcpServers",))
        if key == "strict":
            found, allowed = "unknown key strict, did you mean secrets.strict?", ""
            remedy = "Write secrets: {strict: true}"
        elif key != client is not None:
            found, allowed, remedy = f"unknown key {key}, did you mean {client}?", "", f"Write {client}"
        # A misspelt section that protects must never mean that nothing does.
        self.report(document.problem((key,), found, allowed, remedy), key, stops=key not in NOT_BUILT)

    def _per_entry(self, document: Document, key: str, value: Any) -> None:
        """Aliases and composite tools: a wrong one is left out, the others stay."""
        if not isinstance(value, dict):
            if value is not None:
                self.problems.append(document.problem((key,), "is not a mapping", "a mapping by name"))
            return
        kept: dict[str, Any] = self.values.setdefault(key, {})
        valid: dict[str, Any] = {}
        for name, item in value.items():
            if not name.strip() or name != visible(name.strip()):
                allowed = "visible characters, with no space around them"
                self.problems.append(document.problem((key, name), f"found the name {name!r}", allowed))
                continue
            # The code of a composite tool keeps its dollars.
            item = self._expand(document, item, (key, name)) if key == "aliases" else item
            checked = self._checked(document, key, {name: item})
            if checked is not None:
                valid[name] = checked[name]
        for name, entry in (self._readable(document, valid) if key == "composite_tools" else valid).items():
            if kept.setdefault(name, entry) is entry:
                self.writers[(key, name)] = document

    def _checked(self, document: Document, key: str, value: Any) -> Any:
        """The value by the model; None where it is wrong, which is reported."""
        try:
            return getattr(Config.model_validate({key: value}), key)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path, found, allowed, remedy = explain(detail, Config, document.value)
                unknown = detail["type"] == "extra_forbidden" and key not in _LEFT_OUT_ALONE
                self.report(document.problem(path, found, allowed, remedy), key, stops=unknown)
            return None

    def _readable(self, document: Document, tools: dict[str, CompositeTool]) -> dict[str, CompositeTool]:
        """The composite tools that can run at all; a syntax error is found here, not at the first call."""
        checks = check_codes([tool.code for tool in tools.values()])
        faulty = {name: check.error for name, check in zip(tools, checks, strict=True) if check.error}
        for name, error in faulty.items():
            found = f"{error.message} (line {error.line} of the code)" if error.line else error.message
            path = ("composite_tools", name, "code")
            self.problems.append(document.problem(path, found, "", error.hint or ""))
            line = f": `{error.source_line.strip()[:SHOWN_LINE]}`" if error.source_line.strip() else ""
            self.faulty[name] = f"{error.message} (line {error.line}, column {error.column}{line})"
        return {name: tool for name, tool in tools.items() if name not in faulty}

    def _expand(self, document: Document, value: Any, path: KeyPath) -> Any:
        """The value with variables put in; a missing one is reported and its text stays."""
        section = str(path[0])
        if path in _LITERAL:
            return value
        if isinstance(value, dict):
            return {k: self._expand(document, v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._expand(document, v, (*path, i)) for i, v in enumerate(value)]
        if not isinstance(value, str):
            return value
        if "secretref:" in value:
            found = "a secretref: is not resolved here"
            self.report(document.problem(path, found, "values of backends"), section)
        try:
            result = expand(parse_template(value), self._variable)
        except TemplateError as error:
            self.report(document.problem(path, str(error)), section)
            return value
        for reference in result.missing:
            found = f"{reference.name} is not set"
            remedy = f"Set {reference.name} in the environment or a .env file"
            self.report(document.problem(path, found, "", remedy, unresolved=True), section)
        return result.text

    def _variable(self, reference: Reference) -> str | None:
        return self.environ.get(reference.name) if reference.kind == "variable" else None
