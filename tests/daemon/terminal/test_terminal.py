"""Commands of the terminal use the daemon that runs for their configuration."""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import GATEMINI, Home, until

CONFIG = {
    "shop": {"module": "gatemini.demo.shop:server"},
    "clock": {"module": "gatemini.demo.clock:server"},
}
LARGE = ("call", "shop.list_orders", '{"limit": 2000}')


def ready(home: Home, **more: dict[str, Any]) -> tuple[str, ...]:
    """A daemon that serves, with more backends; the words that name its configuration."""
    home.write_config(daemon={"idle_timeout": "60s"}, backends={**CONFIG, **more})
    home.client().greet()
    home.serving()
    return ("-c", str(home.config))


def without_times(text: str) -> str:
    return "\n".join(
        line.partition("  ")[0] if line.startswith(("✓", "✗")) else line for line in text.splitlines()
    )


@pytest.mark.long
def test_commands_answer_the_same_with_the_daemon_and_without(home: Home) -> None:
    config = ready(home)
    chain = home.root / "chain.ts"
    chain.write_text(
        'console.log("hi"); return await clock.convert_units({value: 1, source: "km", target: "m"});'
    )
    for words in (  # a tool that was used ranks higher: so first what only reads
        ("search", "convert units"),
        ("search", "convert units", "--json", "--explain"),
        ("search", "convert units", "--tag", "none"),
        ("tools",),
        ("tools", "nobody"),
        ("info", "clock.convert_units", "--full", "--json"),
        ("types", "clock"),
        ("call", "clock.convert_units", '{"value": 1, "source": "km", "target": "m"}'),
        ("call", "clock.convert_unit", "{}"),
        (*LARGE, "--full", "-q"),
        ("run", str(chain)),
    ):
        by_daemon = home.command(*config, *words)
        alone = home.command(*config, *words, "--no-daemon")
        assert (by_daemon.returncode, by_daemon.stdout) == (alone.returncode, alone.stdout), words
        assert without_times(by_daemon.stderr) == without_times(alone.stderr), words


def test_the_daemon_makes_the_call_and_forgets_the_session(home: Home) -> None:
    config = ready(home)
    pid = home.serving()["pid"]
    assert home.command(*config, *LARGE, "-q").returncode == 0
    assert home.serving()["pid"] == pid
    only_the_client(home)


def only_the_client(home: Home) -> None:
    """Wait until the session of a command is forgotten."""
    until(
        lambda: [each["client"] for each in home.serving()["sessions"]] == ["legacy"],
        "only the client's session",
    )


def test_without_a_daemon_none_is_started(home: Home) -> None:
    home.write_config(backends=CONFIG)
    assert home.run("-c", str(home.config), "search", "convert units").returncode == 0
    assert home.daemons() == []


@pytest.mark.long
def test_a_warm_call_takes_at_most_a_fifth_of_a_cold_one(home: Home) -> None:
    config = ready(home)
    call = (*config, "call", "clock.convert_units", '{"value": 1, "source": "km", "target": "m"}')

    def cpu_and_wall(*words: str) -> tuple[float, float]:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        assert home.run(*words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return used, time.perf_counter() - begun

    warm = [cpu_and_wall(*call) for _ in range(5)]
    cold = [cpu_and_wall(*call, "--no-daemon") for _ in range(3)]
    assert statistics.median(cpu for cpu, _ in warm) <= statistics.median(cpu for cpu, _ in cold) / 5
    assert statistics.median(wall for _, wall in warm) <= statistics.median(wall for _, wall in cold) / 5


NOISY = "import os, sys; print('token is', os.environ['T'], file=sys.stderr)"


def noisy_backend(token: str, connect_timeout: int) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": ["-S", "-c", NOISY],
        "env": {"T": token},
        "connect_timeout": connect_timeout,
    }


def noisy(home: Home) -> tuple[str, ...]:
    """A daemon whose backend writes a secret to stderr and ends."""
    home.environ["MY_TOKEN"] = "a-secret-of-this-test"
    return ready(home, noisy=noisy_backend("${MY_TOKEN}", 30))


def test_the_stderr_of_a_backend_has_a_file_of_its_own_without_secrets(home: Home) -> None:
    config = noisy(home)
    path = Path(home.place.stderr("noisy"))
    until(path.exists, "its stderr")
    shown = home.command(*config, "logs", "noisy")
    assert shown.stdout.endswith("token is «secret MY_TOKEN»\n"), shown
    assert "a-secret-of-this-test" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "has written nothing to stderr" in home.command(*config, "logs", "clock").stderr
    assert "there is no backend nosy" in home.command(*config, "logs", "nosy").stderr


@pytest.mark.long
def test_logs_are_followed_past_a_file_that_is_cut(home: Home) -> None:
    config = ready(home)
    follow = subprocess.Popen(
        [*GATEMINI, *config, "logs", "-f", "-n", "1"], stdout=subprocess.PIPE, text=True, env=home.environ
    )
    assert follow.stdout is not None
    try:
        assert "started" in follow.stdout.readline()
        log = Path(home.place.log)
        log.write_text("one\n")
        assert follow.stdout.readline() == "one\n"
        log.rename(log.with_suffix(".old"))
        log.write_text("two, which is longer than the first\n")
        assert follow.stdout.readline().startswith("two")
    finally:
        follow.kill()
        follow.wait()
        follow.stdout.close()


@pytest.mark.long
def test_one_backend_logs_at_debug_for_a_while(home: Home) -> None:
    config = noisy(home)
    assert "backend noisy is" not in Path(home.place.log).read_text()
    said = home.command(*config, "logs", "--level", "backend.noisy=debug", "--for", "10m")
    assert said.returncode == 0, said
    slower = {name: {**one, "connect_timeout": 25} for name, one in CONFIG.items()}
    home.write_config(
        daemon={"idle_timeout": "60s"}, backends={**slower, "noisy": noisy_backend("other", 25)}
    )
    until(lambda: "backend noisy is" in Path(home.place.log).read_text(), "a line at debug")
    assert "backend clock is" not in Path(home.place.log).read_text()
    assert "the parts are backend." in home.command(*config, "logs", "--level", "backend.nosy=debug").stderr
    assert home.command(*config, "logs", "--level", "noisy").returncode == 2


def test_status_names_the_users_of_each_backend(home: Home) -> None:
    config = ready(home)
    first = home.clients[0]
    first.value(first.call("clock.convert_units", value=1, source="km", target="m"))
    second = home.client(modern=True)
    second.greet()
    for tool, more in (
        ("clock.convert_units", {"value": 1, "source": "km", "target": "m"}),
        ("shop.list_orders", {}),
    ):
        second.value(second.call(tool, **more))
    status = home.serving()
    assert {each["name"]: each["users"] for each in status["backends"]} == {"clock": 2, "shop": 1}
    assert [each["backends"] for each in status["sessions"]] == [["clock"], ["clock", "shop"]]
    text = home.run(*config, "status").stdout
    assert "backend clock: healthy, 2 users" in text
    assert re.search(
        rf"client modern: process {second.process.pid}, for \d+ s, 3 requests, 0 in flight, in {home.root}; uses clock, shop",
        text,
    ), text
    second.close()
    until(
        lambda: [each["users"] for each in home.serving()["backends"]] == [1, 0],
        "a client that has left uses nothing",
    )


def test_top_writes_a_line_a_look_and_json(home: Home) -> None:
    config = ready(home)
    assert home.command(*config, *LARGE, "-q").returncode == 0
    only_the_client(home)
    lines = home.command(*config, "top", "--count", "2", "--interval", "10ms").stdout.splitlines()
    assert len(lines) == 2
    assert "1 session  0 in flight  1 call  0.0/s" in lines[0]
    answer = json.loads(home.command(*config, "top", "--json").stdout)
    assert answer["calls"] == 1
    assert answer["failed"] == 0
    assert answer["p95_ms"] > 0
    assert answer["estimated_tokens_saved"] > 1000
    assert {each["name"]: each["calls"] for each in answer["status"]["backends"]} == {"shop": 1, "clock": 0}
    home.command(*config, "stop")
    assert "no daemon runs" in home.command(*config, "top").stderr


@pytest.mark.long
def test_the_live_view_shows_clients_and_backends(home: Home) -> None:
    config = ready(home)
    ours, theirs = os.openpty()
    environ = {**home.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30", "NO_COLOR": "1"}
    words = [*GATEMINI, *config, "top", "--count", "2", "--interval", "10ms"]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, env=environ)
    os.close(theirs)
    text = b""
    while process.poll() is None or b"restarts" not in text:
        try:
            text += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    for shown in ("calls/s", "tokens saved", "legacy", "shop", "healthy", "restarts"):
        assert shown in text.decode(), text


@pytest.mark.long
def test_doctor_looks_at_the_folder_stale_files_and_lost_daemons(home: Home) -> None:
    config = ready(home)
    folder = Path(home.place.folder)
    (folder / "0123456789ab.pid").write_text("1 1\n")

    def findings() -> dict[str, dict[str, str]]:
        found = json.loads(home.command(*config, "doctor", "--json").stdout)["findings"]
        return {finding["what"]: finding for finding in found if str(home.root) in finding["seen"]}

    found = findings()
    assert found["daemon folder"]["verdict"] == "ok"
    assert "0123456789ab.pid" in found["stale files"]["seen"]
    folder.chmod(0o755)
    assert findings()["daemon folder"]["verdict"] == "fail"
    folder.chmod(0o700)
