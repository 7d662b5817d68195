"""`gatemini sandbox inspect`: what the guest imports and what each import is bound to, for a reviewer."""

from __future__ import annotations

from typing import Any

from gatemini.cli import shell
from gatemini.errors import SandboxFault

_UNBOUND = "nothing"


def inspect(*, as_json: bool) -> int:
    """The guest's hash, everything it imports, what each import is bound to, and the default limits."""
    from gatemini_sandbox.errors import GuestMissing, GuestTampered
    from gatemini_sandbox.inspection import inspect as facts_of_the_guest

    try:
        facts = facts_of_the_guest()
    except (GuestMissing, GuestTampered) as error:
        raise SandboxFault(str(error), hint="reinstall gatemini from its locked requirements") from error
    unbound = [entry["name"] for entry in facts["imports"] if entry["bound_to"] == _UNBOUND]
    if as_json:
        shell.emit({"ok": not unbound, **facts})
    else:
        _show(facts)
    if unbound:
        shell.note(f"not bound, so this guest is not started: {', '.join(unbound)}")
        return shell.FAILED
    return shell.OK


def _show(facts: dict[str, Any]) -> None:
    guest, engine = facts["guest"], facts["engine"]
    shell.say(f"guest   {guest['distribution']} {guest['version']}, {guest['bytes']:,} bytes")
    shell.say(f"sha256  {guest['sha256']}, checked at load")
    shell.say(f"patch   {facts['patch']}")
    shell.say(
        f"engine  {engine['name']} {engine['version']}, interrupted every {facts['tick_seconds']:g} s to check limits"
    )
    shell.say(f"host functions: {facts['host_functions']}")
    shell.rows(
        ("import", "bound to"),
        ((f"{entry['module']}.{entry['name']}", entry["bound_to"]) for entry in facts["imports"]),
    )
    shell.say("default limits: " + ", ".join(f"{key} {value}" for key, value in facts["limits"].items()))


COMMANDS = (shell.Command("inspect", inspect, config=""),)
