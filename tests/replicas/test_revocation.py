"""A token that is revoked where one replica reads it counts at no replica within a second, and its streams end."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import anyio
import httpx2
import pytest

from fixtures.http_gateway import result, text
from fixtures.replicas import Cluster, cluster
from gatemini.http.auth import tokens
from replicas.conftest import ASKING
from replicas.test_parked import QUESTION, answered, asked

pytestmark = [pytest.mark.anyio, pytest.mark.long]
SECONDS = 1.0
"""What is promised of a machine with nothing else to do; on a busy one the best of several tokens counts."""


def login(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_revoked_token_counts_at_no_replica_within_a_second_and_its_streams_end(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tokens.yaml"
    revoked = [tokens.create(file, "ada", (), None, None) for _ in range(4)]
    bob, _ = tokens.create(file, "bob", (), None, None)
    auth = {"auth": {"tokens": {"file": "tokens.yaml"}}}  # each replica has a file of its own
    with cluster(tmp_path, http=auth, token=bob, files=[file]) as two:
        took = [await seconds_to_revoke(two, token, made.id) for token, made in revoked]
        for number in range(2):
            async with two.at(number) as gateway:
                message, headers = gateway.modern("tools/list")
                assert result(await gateway.post(message, headers={**headers, **login(bob)}))["tools"]
    assert min(took) <= SECONDS, took


IN_THE_BACKGROUND = f"""await ask.ask({json.dumps(QUESTION)});
const again = ask.ask({json.dumps(QUESTION)});
let failed = "";
while (!failed) {{
  await sleep(20);
  try {{ await ledger.write({{ key: "x" }}); }} catch (e) {{ failed = e.message; }}
}}
await again;
return failed;"""


async def test_a_chain_parked_again_through_another_replica_makes_no_call_for_a_revoked_token(
    tmp_path: Path,
) -> None:
    """The replica of the chain never had the token: the other one has forwarded it."""
    file = tmp_path / "tokens.yaml"
    (first_token, _), (token, entry), (last_token, _) = (
        tokens.create(file, "ada", (), None, None) for _ in range(3)
    )
    auth = {"auth": {"tokens": {"file": "tokens.yaml"}}}
    asking = {"ask": {"command": sys.executable, "args": ["-P", ASKING]}}
    with cluster(tmp_path, backends=asking, http=auth, token=first_token, files=[file]) as two:
        async with two.at(0) as owner, two.at(1) as other:
            message, headers = asked(owner, IN_THE_BACKGROUND)
            parked = result(await owner.post(message, headers={**headers, **login(first_token)}))
            again = answered(message, parked)
            parked = result(await other.post(again, headers={**headers, **login(token)}))
            assert parked["resultType"] == "input_required"
            tokens.revoke(two.replicas[1].folder / "tokens.yaml", entry.id)
            with anyio.fail_after(60):
                before = -1
                while before != (before := len(two.writes())):  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(1)
            refused = await other.post(answered(again, parked), headers={**headers, **login(token)})
            assert refused.status_code == 401
            last = await other.post(answered(again, parked), headers={**headers, **login(last_token)})
            assert "is denied by the client's login: it has ended" in text(result(last))


async def seconds_to_revoke(two: Cluster, token: str, ident: str) -> float:
    """How long the token counts anywhere after the first replica's file has it as revoked, or a stream of it stays open."""
    ends: list[float] = []

    async def stream(number: int, opened: anyio.Event) -> None:
        async with two.at(number) as gateway:
            session = await gateway.handshake(login(token))
            headers = {**session, "accept": "text/event-stream"}
            async with gateway.http.stream("GET", gateway.url, headers=headers) as answer:
                assert answer.status_code == 200
                opened.set()
                try:
                    async for _ in answer.aiter_raw():
                        pass
                except httpx2.HTTPError:
                    pass
            ends.append(time.monotonic())

    async def requests(number: int) -> None:
        async with two.at(number) as gateway:
            message, headers = gateway.modern("tools/list")
            own = {**headers, **login(token)}
            while (await gateway.post(message, headers=own)).status_code == 200:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
            ends.append(time.monotonic())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                opened = anyio.Event()
                tasks.start_soon(stream, number, opened)
                await opened.wait()
                tasks.start_soon(requests, number)
            began = time.monotonic()
            tokens.revoke(two.replicas[0].folder / "tokens.yaml", ident)
    assert len(ends) == 4
    return max(ends) - began
