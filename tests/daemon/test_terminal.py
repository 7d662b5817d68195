"""Commands of the terminal use the daemon that runs for their configuration."""

from __future__ import annotations

import resource
import statistics
import time

from fixtures.daemons import Home, until

CONFIG = {
    "shop": {"module": "gatemini.demo.shop:server"},
    "clock": {"module": "gatemini.demo.clock:server"},
}
LARGE = ("call", "shop.list_orders", '{"limit": 2000}')


def ready(home: Home) -> tuple[str, ...]:
    """A daemon that serves; the words that name its configuration."""
    home.write_config(daemon={"idle_timeout": "60s"}, backends=CONFIG)
    home.client().greet()
    home.serving()
    return ("-c", str(home.config))


def without_times(text: str) -> str:
    return "\n".join(
        line.partition("  ")[0] if line.startswith(("✓", "✗")) else line for line in text.splitlines()
    )


def test_call_run_and_search_answer_the_same_with_the_daemon_and_without(home: Home) -> None:
    config = ready(home)
    chain = home.root / "chain.ts"
    chain.write_text(
        'console.log("hi"); return await clock.convert_units({value: 1, source: "km", target: "m"});'
    )
    for words in (  # a tool that was used ranks higher: so first what only reads
        ("search", "convert units"),
        ("search", "convert units", "--json", "--explain"),
        ("search", "convert units", "--tag", "none"),
        ("call", "clock.convert_units", '{"value": 1, "source": "km", "target": "m"}'),
        ("call", "clock.convert_unit", "{}"),
        (*LARGE, "--full", "-q"),
        ("run", str(chain)),
    ):
        by_daemon = home.run(*config, *words)
        alone = home.run(*config, *words, "--no-daemon")
        assert (by_daemon.returncode, by_daemon.stdout) == (alone.returncode, alone.stdout), words
        assert without_times(by_daemon.stderr) == without_times(alone.stderr), words


def test_the_daemon_makes_the_call_and_forgets_the_session(home: Home) -> None:
    config = ready(home)
    pid = home.serving()["pid"]
    assert home.run(*config, *LARGE, "-q").returncode == 0
    assert home.serving()["pid"] == pid
    until(
        lambda: [each["client"] for each in home.serving()["sessions"]] == ["legacy"],
        "only the client's session",
    )


def test_without_a_daemon_none_is_started(home: Home) -> None:
    home.write_config(backends=CONFIG)
    assert home.run("-c", str(home.config), "search", "convert units").returncode == 0
    assert home.daemons() == []


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
