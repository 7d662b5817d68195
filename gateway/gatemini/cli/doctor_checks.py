"""What `gatemini doctor` examines in a running gateway: one finding each, with what to do about it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from gatemini.app import App
from gatemini.backends.status import BackendStatus
from gatemini.cli.daemon_findings import daemon_findings
from gatemini.cli.finding import Finding
from gatemini.cli.open_gateway import MODEL_SECONDS, redactor, settle, settle_search
from gatemini.cli.shell import parsed, texts
from gatemini.config.build import SWITCHED_OFF
from gatemini.config.check_targets import calls_of_tools
from gatemini.config.load import Loaded
from gatemini.discovery.types.identifiers import backend_identifier
from gatemini.errors import GateminiError
from gatemini.policy.flow.guard import only_unknown
from gatemini.policy.rules.hints import HintRules
from gatemini.text.shorten import counted
from gatemini_sandbox.errors import GuestFault, GuestMissing, GuestTampered, SandboxError

_STDERR_LINES = 3
_SELF_TEST = "const xs: number[] = [1, 2, 3]; return await Promise.all(xs.map(async (x) => x * 14));"
_SELF_TEST_ANSWER = [14, 28, 42]
_SELF_TEST_MS = 20_000
_COMPILE_SECONDS = 60.0
"""Compiling the guest takes about a second, once; this bounds it on a machine that is very busy."""
_REINSTALL = "reinstall gatemini: the guest's file is damaged or missing"
_CHECK_LIMITS = (
    "look at the limits of processes, threads, open files and address space of this user (`ulimit -a`)"
)
_REPORT_FAULT = (
    f"{_CHECK_LIMITS}; if they are wide enough, please report it: the guest's file is as it should be"
)
_CLEAR_MODULES = "delete that folder, or what is in its place (without a home: set HOME), and start again"
_CHECK_URL = "look at its url and headers in the configuration, and ask the url by hand (curl -i URL)"
_CHECK_BACKEND: dict[str, str] = {
    "stdio": "look at its command, args and env in the configuration, and run the command by hand",
    "streamable-http": _CHECK_URL,
    "sse": _CHECK_URL,
    "python": "look at its module in the configuration, and import it by hand with the Python of this gateway",
    "cli-adapter": "look at its tools' commands (and adapter_file) in the configuration, and run them by hand",
}
"""Transport → where the trouble of a backend of that kind lies."""
_WALLS = ("no_new_privs", "landlock", "seccomp")
"""Those of the kernel, as confine.py names them."""


async def examine(gateway: App) -> list[Finding]:
    """All findings of a running gateway, without secrets."""
    await settle(gateway)
    findings = [*config_findings(gateway.loaded)]
    for status in gateway.manager.statuses():
        findings.append(backend_finding(status))
        findings += key_findings(gateway, status.name)
    findings += [*naming_findings(gateway), *flow_findings(gateway)]
    findings += [cache_finding(gateway), *await sandbox_findings(gateway), await model_finding(gateway)]
    findings += await anyio.to_thread.run_sync(daemon_findings)
    hide = redactor(gateway)
    for finding in findings:
        finding.seen = hide.redact(finding.seen)
    return findings


def config_findings(loaded: Loaded) -> list[Finding]:
    if loaded.source is None:
        return [Finding("config", "ok", "no file: the embedded demo backends are served")]
    findings = [
        Finding("config", "fail" if p.severity == "error" else "warn", replace(p, remedy="").text(), p.remedy)
        for p in loaded.problems
    ]
    findings += [
        Finding(f"backend {name}", "ok", reason)
        for name, reason in loaded.disabled.items()
        if reason == SWITCHED_OFF
    ]
    if not findings:
        findings = [Finding("config", "ok", str(loaded.source))]
    return findings


def backend_finding(status: BackendStatus) -> Finding:
    what = f"backend {status.name}"
    if status.state == "healthy":
        server = status.server_info or {}
        about = f"{server.get('name', status.transport)} {server.get('version', '')}".strip()
        seen = f"{counted(status.tools, 'tool')}, {about}, {status.protocol_version or status.transport}"
        if status.repairs:
            seen += f"; repaired: {'; '.join(status.repairs)}"
        if status.skipped_lines:
            seen += f"; skipped {counted(status.skipped_lines, 'line')} on stdout that hold no message"
        return Finding(what, "ok" if status.tools else "warn", seen)
    seen = status.error or f"is {status.state}"
    shown = {line.strip() for line in seen.splitlines()} | {""}
    tail = [line for line in status.stderr_tail[-_STDERR_LINES:] if line.strip() not in shown]
    if tail:
        seen += "\nstderr: " + "\n".join(tail)
    remedy = status.remedy or _CHECK_BACKEND[status.transport]
    return Finding(what, "warn" if status.state == "starting" else "fail", seen, remedy)


def naming_findings(gateway: App) -> list[Finding]:
    """Aliases and composite tools that name tools which backends that run have not."""
    config, registry = gateway.loaded.config, gateway.registry
    down = {s.name for s in gateway.manager.statuses() if s.state != "healthy"} | {*gateway.loaded.disabled}
    findings = [
        Finding(f"alias {alias}", "warn", f"there is no tool {target}", "correct it under aliases")
        for alias, target in config.aliases.items()
        if registry.alias(alias) is None and target.partition(".")[0] not in down
    ]
    for name, tool in config.composite_tools.items():
        for call in calls_of_tools(tool):
            try:
                registry.find(call.name, call.member)
            except GateminiError as error:
                if call.name in map(backend_identifier, down):
                    continue  # the finding of that backend says it already
                seen = f"line {call.line} of its code calls {call.name}.{call.member}: {error.message}"
                remedy = error.hint or "correct it under composite_tools"
                findings.append(Finding(f"composite tool {name}", "fail", seen, remedy))
    return findings


def key_findings(gateway: App, backend: str) -> list[Finding]:
    missing = gateway.loaded.keys[backend].missing if backend in gateway.loaded.keys else ()
    return [
        Finding(
            f"keys of {backend}",
            "warn",
            f"{name} is not set",
            f"set {name} in the environment or a .env file",
        )
        for name in missing
    ]


def flow_findings(gateway: App) -> list[Finding]:
    """Backends that make a session untrusted only since nothing is known of their tools."""
    policy = gateway.loaded.config.policy
    if policy is None or policy.flow == "off":
        return []
    unknown = only_unknown(gateway.registry.all_tools(), HintRules(policy))
    remedy = "name those that you know under policy.trust_annotations or policy.override_annotations"
    seen = "no hint of its tools is believed: a session that calls one has read untrusted content"
    return [Finding(f"backend {name}", "warn", seen, remedy) for name in unknown]


def cache_finding(gateway: App) -> Finding:
    path = Path(gateway.cache.path)
    folder = next((parent for parent in path.parents if parent.exists()), path.parent)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Finding(
            "cache",
            "warn",
            f"{path} cannot be written",
            "set cache_path, or HOME, to a place you may write to",
        )
    if gateway.cache.problem:
        return Finding("cache", "warn", gateway.cache.problem, "nothing to do: it is written anew")
    return Finding("cache", "ok", str(path) if path.exists() else f"{path} (not there yet)")


async def sandbox_findings(gateway: App) -> list[Finding]:
    """A chain run for real, then what surrounds it."""
    try:
        with anyio.move_on_after(_COMPILE_SECONDS):
            await anyio.to_thread.run_sync(gateway.sandbox.warm, abandon_on_cancel=True)
    except SandboxError as exc:
        return [Finding("sandbox", "fail", str(exc), _remedy_of_sandbox(exc))]
    findings = [await self_test_finding(gateway)]
    if gateway.sandbox.isolation == "process":
        findings.append(walls_finding(gateway.sandbox.confinement))
    if gateway.sandbox.cache_problem:
        seen = f"the guest is compiled at every start, which takes about a second: {gateway.sandbox.cache_problem}"
        findings.append(Finding("compiled guest", "warn", seen, _CLEAR_MODULES))
    else:
        findings.append(Finding("compiled guest", "ok", "kept on disk, under a key of this user"))
    return findings


def _remedy_of_sandbox(error: SandboxError) -> str:
    """Return what to do: reinstall where the guest's file is missing or changed, else report or look at the limits."""
    if isinstance(error, GuestMissing | GuestTampered):
        return _REINSTALL
    return _REPORT_FAULT if isinstance(error, GuestFault) else _CHECK_LIMITS


def walls_finding(walls: Sequence[str]) -> Finding:
    """Report the walls around sandbox processes; one that this kernel lacks is a warning, as WebAssembly remains."""
    missing = [wall for wall in _WALLS if not any(found.startswith(wall) for found in walls)]
    seen = f"sandbox processes behind {', '.join(walls) or 'nothing'}"
    if not missing:
        return Finding("sandbox walls", "ok", seen)
    seen += f"; this kernel does not give {' and '.join(missing)}"
    return Finding("sandbox walls", "warn", seen, "run it on Linux 5.13 or newer with seccomp and Landlock")


async def self_test_finding(gateway: App) -> Finding:
    """A chain with a type annotation and promises."""
    begun = time.perf_counter()
    answer: dict[str, Any] = await gateway.call_meta_tool(
        "call_tool_chain", {"code": _SELF_TEST, "timeout": _SELF_TEST_MS}
    )
    ms = (time.perf_counter() - begun) * 1000
    blocks = texts(answer)
    if not answer.get("isError") and blocks and parsed(blocks[0]) == _SELF_TEST_ANSWER:
        return Finding("sandbox", "ok", f"self-test passed in {ms:.0f} ms")
    seen = "\n".join(blocks) or "no answer"
    return Finding("sandbox", "fail", f"self-test failed: {seen}", _REPORT_FAULT)


async def model_finding(gateway: App) -> Finding:
    """The model as it is once loaded: nothing is well while it is only said to be on its way."""
    await settle_search(gateway)
    if gateway.embedding.problem:
        return Finding(
            "search model", "warn", gateway.embedding.problem, "search goes on without a model (BM25)"
        )
    if gateway.embedding.loaded is None:
        chosen = gateway.loaded.config.semantic.model
        if chosen == "none":
            return Finding("search model", "ok", "none: search by words")
        return Finding(
            "search model", "warn", f"{chosen} is still loading after {MODEL_SECONDS:g} s", "ask again"
        )
    return Finding("search model", "ok", gateway.loaded.config.semantic.model)
