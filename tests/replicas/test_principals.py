"""What one principal has is reached by no other, at any replica, and its login goes with what is forwarded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fixtures.http_gateway import result, text
from fixtures.replicas import cluster
from gatemini.http.auth import tokens
from replicas.conftest import ASKING
from replicas.test_parked import answered, asked

pytestmark = pytest.mark.anyio


async def test_sessions_results_and_parked_chains_are_of_their_principal_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    ada, bob = (
        {"Authorization": f"Bearer {tokens.create(file, name, (), None, None)[0]}"} for name in ("ada", "bob")
    )
    auth = {"auth": {"tokens": {"file": str(file)}}}
    asking = {"ask": {"command": sys.executable, "args": ["-P", ASKING]}}
    token = ada["Authorization"].removeprefix("Bearer ")
    with cluster(tmp_path, backends=asking, http=auth, token=token) as two:
        async with two.at(0) as first, two.at(1) as second:
            session = await first.handshake(ada)
            foreign = {**session, **bob}
            assert (await second.post(second.legacy_chain("return 1;"), headers=foreign)).status_code == 404
            assert text(result(await second.post(second.legacy_chain("return 1;"), headers=session))) == "1"

            saved = await first.chain('return await results.save("for-ada-only");', session="s", headers=ada)
            code = f'return await results.load("{json.loads(text(saved))["handle"]}");'
            assert text(await second.chain(code, session="s", headers=ada)) == "for-ada-only"
            assert "for-ada-only" not in text(await second.chain(code, session="s", headers=bob))

            message, headers = asked(first)
            parked = result(await first.post(message, headers={**headers, **ada}))
            stolen = await second.post(answered(message, parked), headers={**headers, **bob})
            assert "result" not in stolen.json() or stolen.json()["result"].get("isError")
            assert two.writes() == ["before"]
            answer = await second.post(answered(message, parked), headers={**headers, **ada})
            assert text(result(answer)) == "Ada"
            assert two.writes() == ["before", "after"]
        for replica in two.replicas:
            assert "for-ada-only" not in replica.log
            assert token not in replica.log
        stored = b"".join(path.read_bytes() for path in two.redis.folder.rglob("*") if path.is_file())
        assert b"for-ada-only" not in stored
        assert token.encode() not in stored
