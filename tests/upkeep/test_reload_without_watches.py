"""A gateway starts and follows its configuration where the user has no inotify instance or watch left."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from fixtures.direct import gateway_parameters, run_chain, text_of, write_config

pytestmark = pytest.mark.anyio

NAMESPACE = ["unshare", "--user", "--map-root-user", "sh", "-ec"]


def limits_can_be_set() -> bool:
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(
            [*NAMESPACE, "echo 0 > /proc/sys/user/max_inotify_watches"], capture_output=True
        ).returncode
    )


@pytest.mark.skipif(not limits_can_be_set(), reason="needs a user namespace with inotify limits of its own")
@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
async def test_a_changed_file_is_seen_without_inotify(tmp_path: Path, limit: str) -> None:
    config = write_config(tmp_path, {})
    direct = gateway_parameters(config)
    within = StdioServerParameters(
        command=NAMESPACE[0],
        args=[
            *NAMESPACE[1:],
            f'echo 0 > /proc/sys/user/{limit}; exec "$0" "$@"',
            direct.command,
            *direct.args,
        ],
        env=direct.env,
    )
    code = "return await gatemini.list_tools_meta({})"
    with (tmp_path / "stderr.log").open("w") as errlog, anyio.fail_after(60):
        async with Client(stdio_client(within, errlog=errlog)) as client:
            assert "clock.now" not in text_of(await run_chain(client, code))
            write_config(tmp_path, {"clock": {"module": "gatemini.demo.clock:server"}})
            while "clock.now" not in text_of(await run_chain(client, code)):  # noqa: ASYNC110
                await anyio.sleep(0.1)
    assert (tmp_path / "stderr.log").read_text().count("are seen only every 5 s") >= 1
