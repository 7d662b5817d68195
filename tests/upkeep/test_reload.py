"""A changed configuration file is taken in while the gateway runs; a bad one leaves the running one in force."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.direct import DEMO_SERVER, write_config
from fixtures.running import DEMO, answer, in_one_session, until
from gatemini.app import App
from gatemini.cache import config_hash
from gatemini.config.variables.store import SecretStore

pytestmark = pytest.mark.anyio


def replace(folder: Path, backends: dict[str, Any], **top: Any) -> None:
    """As editors do it: a new file put in the place of the old one."""
    path = folder / "config.yaml"
    kept = path.read_text()
    write_config(folder, backends, **top)
    new = path.read_text()
    path.write_text(kept)
    (folder / "new").write_text(new)
    os.replace(folder / "new", path)


async def test_backends_come_change_and_go_without_touching_the_others(tmp_path: Path) -> None:
    config = write_config(tmp_path, DEMO)
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        assert (await answer(app, "await demo.write({ key: 'a', value: 1 }); return 1;"))[0].startswith("1")
        replace(tmp_path, {**DEMO, "second": DEMO["demo"]}, aliases={"plus": "second.add"})
        await until(lambda: "second" in app.registry.backends())
        assert (await answer(app, '{"tool": "plus", "arguments": {"a": 1, "b": 2}}'))[0] == '{"sum":3}'
        # `demo` is the very same process as before: what it wrote is still known to it.
        stats = json.loads((await answer(app, "return await demo.stats({});"))[0])
        assert stats["writes"] == 1
        replace(tmp_path, DEMO)
        await until(lambda: "second" not in app.registry.backends())
        text, failed, _ = await answer(app, "return await second.add({ a: 1, b: 2 });")
        assert failed, text


async def test_a_changed_file_that_cannot_be_used_leaves_the_running_one_in_force(tmp_path: Path) -> None:
    config = write_config(tmp_path, DEMO)
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        config.write_text("backends: [")
        await until(lambda: any("not in force" in problem for problem in app.problems()))
        assert (await answer(app, "return (await demo.add({ a: 1, b: 2 })).sum;"))[0] == "3"
        _, health = await app.surface(app.new_session()).read_resource("gatemini://health")
        assert "not in force" in health
        assert "\\u000a" not in health
        write_config(tmp_path, DEMO, sandbox={"max_output_size": 5000})
        await until(lambda: not any("not in force" in problem for problem in app.problems()))
        assert app.tools.config.max_output_size == 5000


async def test_a_changed_key_that_needs_a_restart_is_reported_until_it_is_changed_back(
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path, DEMO)
    async with App.open(config, environ={}) as app:

        def told() -> list[str]:
            return [problem for problem in app.problems() if "restart the gateway" in problem]

        write_config(
            tmp_path,
            DEMO,
            health={"interval": "7s"},
            sandbox={"isolation": "thread", "processes": 2, "timeout": "9s"},
        )
        await until(lambda: app.tools.config.timeout == 9.0)
        assert told() == [
            "health, sandbox.isolation, sandbox.processes: changed, but read only at the start: restart the gateway to put it in force"
        ]
        write_config(tmp_path, DEMO, sandbox={"timeout": "8s"})
        await until(lambda: app.tools.config.timeout == 8.0)
        assert told() == []


async def test_a_reload_sees_the_environment_the_gateway_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_OF_THE_PROCESS", "x")
    config = write_config(tmp_path, DEMO)
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        replace(tmp_path, {**DEMO, "other": {"command": "x", "env": {"A": "${ONLY_OF_THE_PROCESS}"}}})
        await until(lambda: "other" in app.loaded.disabled or "other" in app.manager.names())
        assert "ONLY_OF_THE_PROCESS" in app.loaded.disabled["other"]


async def test_watching_does_not_hold_the_end_of_the_gateway(tmp_path: Path) -> None:
    """Clients end a server that does not leave within two seconds of losing its stdin."""
    config = write_config(tmp_path, DEMO)
    for _ in range(3):  # a busy machine may hold one of them
        with anyio.CancelScope() as leaving:
            async with App.open(config, environ={}) as app:
                assert await app.settled(60)
                await answer(app, "return 1;")
                leaving.deadline = anyio.current_time() + 2.0
        if not leaving.cancelled_caught:
            return
    pytest.fail("the gateway did not end within two seconds")


async def test_a_backend_taken_out_of_the_configuration_leaves_the_cache_and_a_dynamic_one_gives_way(
    tmp_path: Path,
) -> None:
    both = {**DEMO, "second": DEMO["demo"]}
    config = write_config(tmp_path, both, registration={"stdio": "allow", "allow_commands": ["*"]})
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        key = config_hash(app.manager.config("second"))
        assert app.cache.tools("second", key)
        in_one_session(app)
        template = {"name": "third", "command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}
        told = await app.call_meta_tool("register_manual", {"manual_call_template": template})
        assert not told["isError"], told
        replace(
            tmp_path,
            {**DEMO, "third": DEMO["demo"]},
            registration={"stdio": "allow", "allow_commands": ["*"]},
        )
        await until(lambda: "third" in app.loaded.config.backends)
        await until(lambda: app.cache.tools("second", key) is None)
        await until(lambda: app.manager.config("third").transport == "python")
        told = await app.call_meta_tool("deregister_manual", {"manual_name": "third"})
        assert "configured" in told["content"][0]["text"]


async def test_a_configuration_behind_exchanged_links_is_taken_in(tmp_path: Path) -> None:
    """As Kubernetes mounts them: config.yaml → ..data/config.yaml, and `..data` is exchanged as a whole."""
    mount = tmp_path / "mount"
    for name, depth in (("..one", 4000), ("..two", 5000), ("..three", 6000)):
        (mount / name).mkdir(parents=True)
        write_config(mount / name, DEMO, sandbox={"max_output_size": depth})
    (mount / "..data").symlink_to("..one")
    (mount / "config.yaml").symlink_to("..data/config.yaml")
    async with App.open(mount / "config.yaml", environ={}) as app:
        assert await app.settled(60)
        for name, size in (("..two", 5000), ("..three", 6000)):
            (mount / "new").symlink_to(name)
            os.replace(mount / "new", mount / "..data")
            await until(lambda size=size: app.tools.config.max_output_size == size)


async def test_env_files_are_read_once(tmp_path: Path) -> None:
    config = write_config(tmp_path, DEMO)
    (tmp_path / ".env").write_text("FIRST=1\n")
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        (tmp_path / ".env").write_text("FIRST=1\nLATER=1\n")
        lazy = {"command": "x", "lazy": True}
        old, new = {**lazy, "env": {"A": "${FIRST}"}}, {**lazy, "env": {"A": "${LATER}"}}
        replace(tmp_path, {**DEMO, "old": old, "new": new})
        await until(lambda: "new" in app.loaded.disabled)
        assert "LATER is not set" in app.loaded.disabled["new"]
        assert "old" in app.loaded.config.backends


async def test_a_folder_that_was_deleted_and_made_again_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "conf"
    folder.mkdir(parents=True)
    async with App.open(write_config(folder, DEMO), environ={}) as app:
        assert await app.settled(60)
        for name in ("second", "third"):
            shutil.rmtree(tmp_path / "deep")
            await until(lambda: "no such file" in "".join(app.problems()))
            assert "demo" in app.registry.backends()
            folder.mkdir(parents=True)
            write_config(folder, {**DEMO, name: DEMO["demo"]})
            await until(lambda name=name: name in app.registry.backends())
            await until(lambda: app.problems() == [])


async def test_files_that_backends_name_are_watched_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret, adapter, variables = (tmp_path / name for name in ("secret", "adapter.yaml", "own.env"))
    secret.write_text("first-secret")
    secret.chmod(0o600)
    adapter.write_text("tools: {one: {command: [echo, x]}}")
    variables.write_text("A=first-value\n")
    client = {"mcpServers": {"web": {"command": "nope", "envFile": str(variables)}}}
    (tmp_path / "mcp.json").write_text(json.dumps(client))
    backends = {
        "lines": {"adapter_file": "adapter.yaml"},
        "told": {"tools": {"t": {"command": ["echo", "x"]}}, "env": {"S": "secretref:file:secret"}},
    }
    async with App.open(write_config(tmp_path, backends, include=["mcp.json"]), environ={}) as app:
        secret.write_text("second-secret")
        await until(lambda: app.manager.config("told").env["S"] == "second-secret")
        assert "second-secret" not in app.tools.redactor.redact("it is second-secret")
        variables.write_text("A=second-value\n")
        await until(lambda: app.manager.config("web").env["A"] == "second-value")
        adapter.write_text("tools: {two: {command: [echo, x]}}")
        await until(lambda: "two" in app.manager.config("lines").cli_tools)
        adapter.write_text("tols: {}")
        await until(lambda: "lines" in app.loaded.disabled)
        await until(lambda: "unknown key tols" in caplog.text)


async def test_an_input_that_is_given_while_the_gateway_runs_starts_its_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatemini.config.load.config_directory", lambda: tmp_path / "own")
    backends = {"told": {**DEMO["demo"], "env": {"S": "${input:key}"}}}
    async with App.open(write_config(tmp_path, backends), environ={}) as app:
        assert "gatemini secret set key" in app.loaded.disabled["told"]
        SecretStore(tmp_path / "own" / "secrets").put("key", "value-one")
        await until(lambda: "told" in app.registry.backends())
