"""How far one store carries replicas: a simulation of what their requests cost it. Prints the tables of docs/scaling.md.

python docs/examples/scaling.py [--seed 1] [--seconds 2] [--sessions-per-replica 1000] [--requests-per-minute 1] [REPLICAS …]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

MICROS = {"set": 7.0, "get": 7.5, "list": 5.0, "script": 11.0, "ping": 3.6, "publish": 5.0}
"""CPU time of the store's one thread for an exchange, its system calls included: Redis 7.0 on a unix socket, a server of 2026."""
MICROS_PER_KB = 1.5
MICROS_PER_RECEIVER = 2.0
"""For the replica that a message of the bus goes to."""

COSTS = {
    "a handshake": {"set": 1, "script": 1},
    "a session at a replica that meets it for the first time": {"script": 1, "get": 1, "list": 1},
    "a request with a session key": {"script": 1, "set": 1},
    "a chain": {"script": 2},
    "each call of a chain": {"script": 2},
    "each limit a call is counted for": {"script": 1},
    "each call, with the data-flow guard": {"list": 1},
    "a result that is kept": {"set": 1, "script": 1},
    "a session that its client ends": {"set": 1, "list": 1},
    "a replica, each second": {"ping": 1, "set": 1},
}
"""Exchanges with the store; the last line's without a request. `set` stands for SET and DEL, `script` for a Lua script."""

CHAIN_CALLS = 3
KEPT = 0.2
"""Share of chains that keep a result: what was reduced, and what code saves."""
SESSION_SECONDS = 1800.0
"""How long a client works; its copies at replicas stay for `http.sessions.idle` after their last use."""
IDLE_SECONDS = 1800.0
ENDED = 0.5
"""Share of sessions that their clients end, of which the replicas that have them get messages; other clients just stay away."""
CANCELLED = 0.01
"""Share of requests that are cancelled, of which the replicas that have the session get messages."""

KEYS = {"session": (400, IDLE_SECONDS), "journal": (1870, 3600.0), "result": (5330, 3600.0)}
"""Bytes of Redis's memory, its own overhead included, and seconds that a key stays: a result of 4 KB, a chain of three calls."""

MOST_SESSIONS = 10_000
"""`http.sessions.max` of a replica."""
MOST_CLIENTS = 10_000
"""`maxclients` of Redis."""
CONNECTIONS = 3
"""Of one replica: for its exchanges, for the bus, and for the stream on which chains are relayed."""
BUSY = 0.7
"""Share of the store's thread beyond which waiting grows fast."""
GIGABYTES = 64.0
"""Memory of a large server of one's own; a fork for a snapshot needs more."""


@dataclass(frozen=True)
class Exchange:
    """One round trip to the store."""

    command: str
    kilobytes: float = 0.3

    @property
    def micros(self) -> float:
        receiver = MICROS_PER_RECEIVER if self.command == "publish" else 0.0
        return MICROS[self.command] + MICROS_PER_KB * self.kilobytes + receiver


def cost(what: str, times: int = 1, kilobytes: float = 0.3) -> list[Exchange]:
    """The exchanges of something, so many times."""
    return [
        Exchange(command, kilobytes) for command, count in COSTS[what].items() for _ in range(count * times)
    ]


CHAIN = [
    *cost("a request with a session key"),
    *cost("a chain"),
    *cost("each call of a chain", CHAIN_CALLS),
    *cost("each limit a call is counted for", CHAIN_CALLS),
]
"""What a chain of three reading calls costs, one exchange after the other; its client has `calls_per_minute`."""


@dataclass(frozen=True)
class Load:
    """A cluster and its clients."""

    replicas: int
    sessions: int
    per_minute: float
    by_session: bool
    """Whether the balancer sends a session's requests to one replica, while that serves."""

    @property
    def requests(self) -> float:
        """A second, in all."""
        return self.sessions * self.per_minute / 60


@dataclass(frozen=True)
class Outcome:
    """What came out for a load."""

    load: Load
    adopted: float
    """Share of requests that met a replica without their session."""
    copies: float
    """Sessions in the memory of one replica."""
    busy: float
    wait_ms: float
    """The wait that one exchange in a hundred exceeds."""
    deliveries: float
    gigabytes: float

    @property
    def connections(self) -> int:
        return self.load.replicas * CONNECTIONS

    @property
    def limit(self) -> str:
        """What this load is beyond."""
        found = [
            ("sessions of a replica", self.copies > MOST_SESSIONS),
            ("the store's thread", self.busy > BUSY),
            ("its memory", self.gigabytes > GIGABYTES),
            ("connections", self.connections > MOST_CLIENTS),
        ]
        return ", ".join(name for name, beyond in found if beyond) or "none"


def copies_of_sessions(load: Load, chance: random.Random, sample: int) -> tuple[float, float, float]:
    """(share of requests that are adoptions, copies at one replica, copies of one session after its first), from some lives."""
    requests = adoptions = 0
    held = 0.0
    for _ in range(sample):
        now, until = 0.0, dict[int, float]()
        while (now := now + chance.expovariate(load.per_minute / 60)) < SESSION_SECONDS:
            replica = 0 if load.by_session else chance.randrange(load.replicas)
            requests += 1
            if until.get(replica, 0.0) <= now:
                adoptions += 1
                held += IDLE_SECONDS
            else:
                held += now + IDLE_SECONDS - until[replica]
            until[replica] = now + IDLE_SECONDS
        adoptions -= bool(until)  # the first one opened it
    started = load.sessions / SESSION_SECONDS
    return adoptions / max(1, requests), started * held / sample / load.replicas, adoptions / sample


def exchanges(
    load: Load, adopted: float, others: float, chance: random.Random, seconds: float
) -> Iterator[tuple[float, float]]:
    """(time, micros of the store's thread) of each exchange of so many seconds, unordered."""
    met = cost("a session at a replica that meets it for the first time")
    for _ in range(round(load.requests * seconds)):
        at = chance.uniform(0, seconds)
        wanted = [*(met if chance.random() < adopted else ()), *CHAIN]
        wanted += cost("a result that is kept", kilobytes=4.0) if chance.random() < KEPT else []
        if chance.random() < CANCELLED:
            wanted += [Exchange("list"), *[Exchange("publish")] * round(others)]
        for exchange in wanted:
            yield at, exchange.micros
            at += chance.expovariate(200)  # 5 ms: a step of the guest, and its call
    started = load.sessions / SESSION_SECONDS
    for what, times in (
        ("a handshake", started * seconds),
        ("a session that its client ends", started * ENDED * seconds),
        ("a replica, each second", load.replicas * seconds),
    ):
        for exchange in cost(what, round(times)):
            yield chance.uniform(0, seconds), exchange.micros
    for _ in range(round(started * ENDED * others * seconds)):
        yield chance.uniform(0, seconds), Exchange("publish").micros


def waits(asked: list[tuple[float, float]]) -> list[float]:
    """Seconds that each exchange waits for the one thread that serves all, in the order in which they come."""
    free, found = 0.0, []
    for at, micros in sorted(asked):
        found.append(max(0.0, free - at))
        free = max(free, at) + micros / 1e6
    return found


def simulate(load: Load, seed: int, seconds: float, sample: int = 300) -> Outcome:
    """Run a load for so many seconds of the store's time."""
    chance = random.Random(seed)  # noqa: S311 - a simulation that is the same on every run
    adopted, copies, others = copies_of_sessions(load, chance, sample)
    asked = list(exchanges(load, adopted, others, chance, seconds))
    waited = sorted(waits(asked))
    started = load.sessions / SESSION_SECONDS
    born = {"session": started, "journal": load.requests, "result": load.requests * KEPT}
    lives = {"session": SESSION_SECONDS}
    stored = sum(born[kind] * size * (ttl + lives.get(kind, 0.0)) for kind, (size, ttl) in KEYS.items())
    return Outcome(
        load=load,
        adopted=adopted,
        copies=copies,
        busy=sum(micros for _, micros in asked) / 1e6 / seconds,
        wait_ms=1000 * waited[int(0.99 * len(waited))] if waited else 0.0,
        deliveries=(load.requests * CANCELLED + started * ENDED) * others,
        gigabytes=stored / 1e9,
    )


COLUMNS = (
    *(
        "replicas",
        "sessions",
        "requests/s",
        "the store's thread",
        "its wait, p99",
        "its memory",
        "bus, messages/s",
    ),
    *("connections", "sessions in a replica", "beyond"),
)


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as Markdown."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for each in outcomes:
        rows.append((
            f"{each.load.replicas:,}",
            f"{each.load.sessions:,}",
            f"{each.load.requests:,.0f}",
            f"{100 * each.busy:.0f} %",
            "grows" if each.busy >= 1 else f"{each.wait_ms:.1f} ms",
            f"{each.gigabytes:.1f} GB",
            f"{each.deliveries:,.0f}",
            f"{each.connections:,}",
            f"{each.copies:,.0f}",
            each.limit,
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("replicas", nargs="*", type=int, default=[3, 10, 50, 100, 300, 1000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--sessions-per-replica", type=int, default=1000)
    parser.add_argument("--requests-per-minute", type=float, default=1.0)
    options = parser.parse_args()
    for by_session, title in ((False, "Round robin"), (True, "By session")):
        loads = [
            Load(count, count * options.sessions_per_replica, options.requests_per_minute, by_session)
            for count in options.replicas
        ]
        print(f"{title}\n\n{table([simulate(load, options.seed, options.seconds) for load in loads])}\n")


if __name__ == "__main__":
    main()
