"""Secrets of programs and servers that take their time: only the backends that need one wait for it, truthfully."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fixtures.backend_bench import ODD
from fixtures.direct import write_config
from fixtures.running import answer, until
from gatemini.app import App
from gatemini.backends.status import State
from gatemini.config.variables import references
from gatemini.errors import BackendStarting, ConfigError

pytestmark = pytest.mark.anyio

GIVEN = "return [...(await {}.env({{}})).GIVEN].join(' ');"
"""What a backend was given, its letters apart so that nothing is hidden."""


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Teller:
    """A command that tells a secret once it is let: `secretref` names it, `let` gives it the word."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.word, self.pid = folder / f"{name}.word", folder / f"{name}.pid"
        self.script = folder / f"{name}.py"
        self.script.write_text(
            "import os, sys, time\n"
            "word, pid = sys.argv[1:3]\n"
            "open(pid, 'a').write(f'{os.getpid()}\\n')\n"
            "while not os.path.exists(word): time.sleep(0.01)\n"
            "print(open(word).read())\n"
        )

    @property
    def secretref(self) -> str:
        return f"secretref:command:{self.name}"

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.script), str(self.word), str(self.pid)]

    def let(self, word: str) -> None:
        new = self.word.with_suffix(".new")
        new.write_text(word)
        os.replace(new, self.word)

    def pids(self) -> list[int]:
        return [int(line) for line in self.pid.read_text().split()] if self.pid.exists() else []


@pytest.fixture
def slow(tmp_path: Path) -> Teller:
    return Teller(tmp_path, "slow")


def backend(given: str, **keys: Any) -> dict[str, Any]:
    args = ["-I", "-S", str(ODD)]
    return {"command": sys.executable, "args": args, "env": {"GIVEN": given}, **keys}


def commands(folder: Path) -> dict[str, list[str]]:
    return {name: Teller(folder, name).argv for name in ("slow", "other", "silent")}


def config(folder: Path, backends: dict[str, Any], **secrets: Any) -> Path:
    told = {"commands": commands(folder), "command_timeout": "1m", **secrets}
    return write_config(folder, backends, secrets=told)


async def given(app: App, name: str) -> str:
    text, _, _ = await answer(app, GIVEN.format(name))
    return text.replace(" ", "")


async def test_other_backends_serve_while_a_secret_is_pending(tmp_path: Path, slow: Teller) -> None:
    backends = {"waits": backend(slow.secretref), "plain": backend("plainly")}
    async with App.open(config(tmp_path, backends), environ={}) as app:
        assert await given(app, "plain") == "plainly"
        status = app.manager.status("waits")
        assert (status.state, status.error) == (
            State.STARTING,
            "waits for secretref:command:slow",
        )
        with pytest.raises(BackendStarting, match="waits waits for secretref:command:slow"):
            await app.manager.call_tool("waits", "pid", {}, timeout=0.2)
        pid = app.manager.status("plain").pid
        slow.let("told-by-it")
        assert await given(app, "waits") == "told-by-it"
        assert app.manager.status("waits").error is None
        assert app.manager.status("plain").pid == pid
        assert "«secret" in (await answer(app, "return (await waits.env({})).GIVEN;"))[0]


async def test_a_backend_without_its_secret_names_the_reason(tmp_path: Path, slow: Teller) -> None:
    backends = {"waits": backend(slow.secretref), "plain": backend("plainly")}
    async with App.open(config(tmp_path, backends), environ={}) as app:
        told: list[str] = []

        async def asks() -> None:
            told.append((await answer(app, "return await waits.pid({});"))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asks)
            await until(lambda: len(slow.pids()) == 1)
            slow.let("")
        assert "waits" in app.loaded.disabled
        assert "gave nothing" in told[0]
        assert "gave nothing" in (await answer(app, "return await waits.pid({});"))[0]
        assert await given(app, "plain") == "plainly"


async def test_a_silent_provider_holds_up_no_secret_of_another(tmp_path: Path, slow: Teller) -> None:
    slow.let("told-by-it")
    backends = {
        "waits": backend("secretref:command:silent:a"),
        "again": backend("secretref:command:silent:b"),
        "told": backend(slow.secretref),
    }
    async with App.open(config(tmp_path, backends), environ={}) as app:
        assert await given(app, "told") == "told-by-it"
        assert app.manager.error("waits") == "waits for secretref:command:silent:a"
        assert app.manager.state("again") is State.STARTING


async def test_each_reference_to_a_provider_that_gave_no_answer_is_named(tmp_path: Path) -> None:
    backends = {n: backend(f"secretref:command:silent:{n}") for n in ("one", "two", "three")}
    async with App.open(config(tmp_path, backends, command_timeout="200ms"), environ={}) as app:
        await until(lambda: app.manager.names() == [])
        for name, reason in app.loaded.disabled.items():
            assert f"secretref:command:silent:{name}: " in reason
            assert "gave no answer within 0.2 s" in reason


async def test_the_end_of_the_gateway_waits_for_no_secret_and_leaves_no_command(
    tmp_path: Path, slow: Teller
) -> None:
    async with App.open(config(tmp_path, {"waits": backend(slow.secretref)}), environ={}):
        await until(lambda: len(slow.pids()) == 1)
    await until(lambda: not runs(slow.pids()[0]))


GATEWAY = """
import sys, anyio
from pathlib import Path
from gatemini.app import App

async def main():
    async with App.open(Path(sys.argv[1]), environ={}):
        await anyio.sleep(600)

anyio.run(main)
"""


def watchdogs(pid: int) -> int:
    return sum("watchdog" in " ".join(child.cmdline()) for child in psutil.Process(pid).children())


@pytest.mark.skipif(os.name != "posix", reason="process groups")
async def test_a_killed_gateway_leaves_no_secret_command_running(tmp_path: Path, slow: Teller) -> None:
    path = config(tmp_path, {"waits": backend(slow.secretref)})
    command = [sys.executable, "-P", "-c", GATEWAY, str(path)]
    async with await anyio.open_process(command, stdout=None, stderr=None) as process:
        await until(lambda: len(slow.pids()) == 1 and watchdogs(process.pid) > 0)
        process.kill()
        await process.wait()
    await until(lambda: not runs(slow.pids()[0]))


async def test_tools_of_last_time_are_found_while_the_secret_is_waited_for(
    tmp_path: Path, slow: Teller
) -> None:
    path = config(tmp_path, {"waits": backend(slow.secretref)})
    slow.let("told-by-it")
    async with App.open(path, environ={}) as app:
        assert await given(app, "waits") == "told-by-it"
    slow.word.unlink()
    async with App.open(path, environ={}) as app:
        result = await app.call_meta_tool("search_tools", {"task_description": "echo"})
        assert "waits.echo" in result["content"][0]["text"]
        assert app.manager.state("waits") is State.STARTING
        slow.let("another-secret")
        assert await given(app, "waits") == "another-secret"


async def test_a_changed_file_reads_secrets_again_and_restarts_only_backends_with_new_ones(
    tmp_path: Path, slow: Teller
) -> None:
    other = Teller(tmp_path, "other")
    slow.let("first-secret")
    other.let("stays-the-same")
    backends = {"turns": backend(slow.secretref), "stays": backend(other.secretref)}
    async with App.open(config(tmp_path, backends), environ={}) as app:
        assert await given(app, "turns") == "first-secret"
        assert await given(app, "stays") == "stays-the-same"
        pid = app.manager.status("stays").pid
        slow.let("second-secret")
        changed = {**backends, "new": backend("plainly")}
        text = config(tmp_path, changed).read_text()
        (tmp_path / "new").write_text(text)
        os.replace(tmp_path / "new", tmp_path / "config.yaml")
        await until(lambda: len(slow.pids()) == len(other.pids()) == 2)
        await until(lambda: app.manager.config("turns").env["GIVEN"] == "second-secret")
        assert await given(app, "turns") == "second-secret"
        assert await given(app, "stays") == "stays-the-same"
        assert app.manager.status("stays").pid == pid


def change(folder: Path, backends: dict[str, Any], **secrets: Any) -> None:
    """Write the file anew in one step, as editors do."""
    (folder / "other").mkdir()
    os.replace(
        config(folder / "other", backends, **{"commands": commands(folder), **secrets}),
        folder / "config.yaml",
    )


async def test_a_file_changed_during_a_secret_lookup_repeats_it_and_drops_the_old_answer(
    tmp_path: Path, slow: Teller
) -> None:
    backends = {"waits": backend(slow.secretref)}
    async with App.open(config(tmp_path, backends), environ={}) as app:
        found: list[str] = []

        async def asks() -> None:
            found.append(await given(app, "waits"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asks)
            await until(lambda: len(slow.pids()) == 1)
            change(tmp_path, {**backends, "new": backend("plainly")})
            await until(lambda: len(slow.pids()) == 2)
            await until(lambda: not runs(slow.pids()[0]))
            slow.let("told-by-it")
        assert found == ["told-by-it"]


def no_keychain(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise KeyError("what nobody thought of")

    monkeypatch.setattr(references, "read_keychain", fails)


async def test_a_failed_secret_lookup_is_named_by_its_backend_and_the_gateway_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_keychain(monkeypatch)
    backends = {"waits": backend("secretref:keyring:gh"), "plain": backend("plainly")}
    async with App.open(config(tmp_path, backends), environ={}) as app:
        await until(lambda: "waits" in app.loaded.disabled)
        assert "secretref:keyring:gh could not be fetched" in app.loaded.disabled["waits"]
        assert app.loaded.waits == {}
        assert await given(app, "plain") == "plainly"


async def test_a_lazy_backend_starts_with_its_first_call_when_its_secret_is_there(
    tmp_path: Path, slow: Teller
) -> None:
    slow.let("told-by-it")
    async with App.open(config(tmp_path, {"waits": backend(slow.secretref, lazy=True)}), environ={}) as app:
        await until(lambda: not app.loaded.waits)
        assert app.manager.status("waits").pid is None
        assert await given(app, "waits") == "told-by-it"


async def test_a_strict_configuration_waits_for_all_its_secrets(tmp_path: Path, slow: Teller) -> None:
    slow.let("told-by-it")
    path = config(tmp_path, {"waits": backend(slow.secretref)}, strict=True)
    async with App.open(path, environ={}) as app:
        assert app.loaded.waits == {}
        assert await given(app, "waits") == "told-by-it"
    slow.let("")
    with pytest.raises(ConfigError, match="gave nothing"):
        async with App.open(path, environ={}):
            pass


async def test_a_backend_with_a_wrong_entry_is_not_waited_for(tmp_path: Path, slow: Teller) -> None:
    wrong = backend(slow.secretref, timeout="soon")
    async with App.open(config(tmp_path, {"wrong": wrong, "plain": backend("x")}), environ={}) as app:
        assert "timeout" in app.loaded.disabled["wrong"]
        assert app.loaded.waits == {}


async def test_no_secret_that_came_late_is_written_to_the_cache(tmp_path: Path, slow: Teller) -> None:
    path = config(tmp_path, {"waits": backend(slow.secretref, args=["-I", "-S", str(ODD), "{}", "x"])})
    slow.let("told-by-it")
    async with App.open(path, environ={}) as app:
        assert await given(app, "waits") == "told-by-it"
    kept = (tmp_path / "cache.json").read_text()
    assert "told-by-it" not in kept
    assert json.loads(kept)["backends"]["waits"]["tools"]
