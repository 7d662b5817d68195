"""The gateway where the system gives little: small stacks, little address space."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from fixtures.direct import TESTS, run_chain, text_of, write_config
from fixtures.running import DEMO

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits as a shell of Linux sets them"),
]

UNDER = "import os, resource, sys; resource.setrlimit(resource.{what}, ({size}, {size})); os.execv(sys.argv[1], sys.argv[1:])"


async def answers(folder: Path, what: str, size: int, *codes: str) -> list[tuple[str, bool]]:
    """What a gateway under this limit answers to each chain: (text, whether it is an error)."""
    config = write_config(folder, DEMO)
    under = UNDER.format(what=what, size=size)
    command = [sys.executable, "-P", "-m", "gatemini", "--direct", "-c", str(config)]
    parameters = StdioServerParameters(
        command=sys.executable, args=["-P", "-c", under, *command], env={"PYTHONPATH": str(TESTS)}
    )
    found = []
    with (folder / "stderr.log").open("w") as errlog:
        async with Client(stdio_client(parameters, errlog=errlog)) as client:
            for code in codes:
                result = await run_chain(client, code)
                found.append((text_of(result), bool(result.is_error)))
    return found


@pytest.mark.parametrize("depth", [900, pytest.param(2500, marks=pytest.mark.long)])
async def test_deep_brackets_under_a_small_stack_end_their_own_chain_at_most(
    tmp_path: Path, depth: int
) -> None:
    nested = f"const a = 1; return {'[' * depth}a{']' * depth}.flat(Infinity)"
    first, second = await answers(tmp_path, "RLIMIT_STACK", 1 << 20, nested, "const a = 1; return a + 1")
    assert first == ("[1]", False) or (first[1] and "WorkerLost" not in first[0]), first
    assert second == ("2", False)


async def test_too_little_address_space_is_named_without_the_advice_to_send_the_chain_again(
    tmp_path: Path,
) -> None:
    ((text, failed),) = await answers(tmp_path, "RLIMIT_AS", 2_000_000 << 10, "const a = 1; return a + 1")
    assert failed
    assert text.startswith("SandboxFault: HostExhausted: ")
    assert "send the chain again" not in text
