"""Deny a call that the client's grant (`http.clients`, limits of its token) leaves out."""

from __future__ import annotations

from gatemini.discovery.types.identifiers import spoken
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.principal import Grant
from gatemini.policy.rules.globs import compile_globs, tool_names

RULE = "the client's grant"


def refusal_by(grant: Grant, facts: CallFacts) -> Decision | None:
    """Return the denial of a call that a grant leaves out."""
    if grant.backends is not None and facts.backend not in grant.backends:
        return Decision("deny", RULE, f"it has no backend {spoken(facts.backend)}")
    names = tool_names(facts.backend, facts.tool, facts.qualified)
    if any(map(compile_globs(grant.deny), names)):
        return Decision("deny", RULE, "it leaves this tool out")
    if not all(any(map(compile_globs(allow), names)) for allow in grant.allow):
        return Decision("deny", RULE, "it does not have this tool")
    return None


def may_reach(grant: Grant | None, backend: str) -> bool:
    """Whether a client could call tools of a backend of this name, whatever tools that has."""
    if grant is None:
        return True
    if grant.backends is not None and backend not in grant.backends:
        return False
    return all(compile_globs(allow)(f"{backend}.tool") for allow in grant.allow)
