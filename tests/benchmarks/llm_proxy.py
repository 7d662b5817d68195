"""What `gatemini llm-proxy` adds to a streamed request: from the request to the first byte of the answer.

A local provider answers; one client with open connections asks it directly, through the proxy as it starts,
and through one that takes every step.
"""

from __future__ import annotations

import socket
import tempfile
import time
from functools import partial
from pathlib import Path

import httpx2
from tests.benchmarks.context_steps import request
from tests.benchmarks.measure import Outcome, Ratio, take_turns
from tests.fixtures.llm_proxy import running_proxy
from tests.fixtures.llm_upstream import Got, Said, running_provider

BYTES, MESSAGES = 20_000, 20
ADDED_MS = 3.0
WAIT_SECONDS = 30.0
AT_ONCE = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
"""Without it a request in two segments waits 40 ms for an acknowledgement."""


def llm_proxy(rounds: int) -> Outcome:
    body = request(BYTES, MESSAGES)[:-1] + b',"stream":true}'
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as plain_folder,
        running_provider(_answer) as provider,
        running_proxy(provider.url, Path(folder), "--all") as proxy,
        running_proxy(provider.url, Path(plain_folder)) as plain,
        httpx2.Client(timeout=WAIT_SECONDS, transport=httpx2.HTTPTransport(socket_options=AT_ONCE)) as client,
    ):
        direct, marking, through = "direct", "through the proxy", "through the proxy, all steps on"
        contestants = {
            direct: partial(_first_byte_ms, client, provider.url, body),
            marking: partial(_first_byte_ms, client, plain.address, body),
            through: partial(_first_byte_ms, client, proxy.address, body),
        }
        figures = take_turns("llm_proxy", contestants, rounds, repeat=10)
    added = {name: figures[name].median_ms - figures[direct].median_ms for name in (marking, through)}
    meaning = "ms that the proxy adds until the first byte of a stream"
    return Outcome(
        tuple(figures.values()),
        (
            Ratio("llm_proxy", meaning, added[marking], "<= 3", added[marking] <= ADDED_MS),
            Ratio("llm_proxy", f"{meaning}, all steps included", added[through], "", None),
        ),
    )


def _answer(got: Got) -> Said:
    return Said("the invoices of March are here")


def _first_byte_ms(client: httpx2.Client, address: str, body: bytes) -> float:
    """Milliseconds to the first byte; the rest of the stream is read outside of them."""
    started = time.perf_counter()
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    url = f"{address}/v1/chat/completions"
    with client.stream("POST", url, content=body, headers=headers) as response:
        response.raise_for_status()
        parts = response.iter_raw()
        next(parts)
        spent = (time.perf_counter() - started) * 1000
        for _ in parts:
            pass
    return spent
