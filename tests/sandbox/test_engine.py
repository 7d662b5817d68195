"""What the engine needs of the machine it runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOT = """
import sys
from pathlib import Path
from gatemini_sandbox.webassembly.engine import Engine
from gatemini_sandbox.errors import HostExhausted
from gatemini_sandbox.webassembly.image import boot
from gatemini_sandbox.limits import Limits
try:
    boot(Engine(Path(sys.argv[1])), Limits())
    print("booted")
except HostExhausted as exc:
    print(exc)
"""


def booted(module_cache: Path, prefix: list[str]) -> str:
    command = [*prefix, sys.executable, "-c", BOOT, str(module_cache)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    ).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_too_little_address_space_is_an_error_that_names_the_limit_and_what_a_guest_reserves(
    module_cache, sandbox
):
    limited = booted(module_cache, ["bash", "-c", 'ulimit -v 2000000; exec "$@"', "limited"])
    assert limited.startswith("no memory for another guest: ")
    assert "a guest reserves 4160 MiB of address space" in limited
    assert (
        "all of this process may take 1953 MiB (RLIMIT_AS, `ulimit -v`): raise that limit or lift it"
        in limited
    )
    assert booted(module_cache, ["bash", "-c", 'ulimit -v 6000000; exec "$@"', "limited"]) == "booted\n"
