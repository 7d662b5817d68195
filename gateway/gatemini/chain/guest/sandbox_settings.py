"""The sandbox of a gateway, as the configuration sets it."""

from __future__ import annotations

import logging

import anyio.to_thread

from gatemini.cache import default_path
from gatemini.config.model.schema import SandboxConfig
from gatemini.explain.name_hints import WATCHED
from gatemini_sandbox.errors import SandboxError
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits

logger = logging.getLogger(__name__)

OPEN_TO_RUNNING = 8
"""Most chains that may hold a guest for each one that may run: those that wait for calls cost two MiB and no thread."""


def new_sandbox(config: SandboxConfig) -> Sandbox:
    """A sandbox with these settings; its compiled module is shared by all gateways of this machine."""
    return Sandbox(
        limits_of(config),
        cache_dir=default_path().parent / "engine",
        isolation=config.isolation,
        processes=config.processes,
        guests_per_process=config.guests_per_process,
        watched=WATCHED,
    )


async def warm(sandbox: Sandbox, done: anyio.Event) -> None:
    """Prepare the sandbox before the first chain, which tries again if that fails; set `done` either way."""
    try:
        await anyio.to_thread.run_sync(sandbox.warm, abandon_on_cancel=True)
    except SandboxError as exc:
        logger.warning("the sandbox is not ready: %s", exc)
    finally:
        done.set()


def open_chains(config: SandboxConfig) -> int:
    """Chains that may hold a guest at once, running or waiting."""
    return config.max_concurrent_sandboxes * min(OPEN_TO_RUNNING, config.guests_per_process)


def limits_of(config: SandboxConfig) -> Limits:
    """The sandbox's limits as the configuration sets them."""
    return Limits(
        cpu_seconds=config.cpu_seconds,
        memory_mb=config.memory_mb,
        total_memory_mb=config.total_memory_mb,
        depth=config.max_depth,
        code_bytes=config.max_code_bytes,
        calls=config.max_calls,
        argument_bytes=config.max_argument_bytes,
        result_bytes=config.max_result_bytes,
        value_bytes=config.max_value_bytes,
        console_bytes=config.max_console_bytes,
        console_line=config.max_console_line,
        guests=config.max_concurrent_sandboxes,
    )
