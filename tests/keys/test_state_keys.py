"""The keys of `state`, each shown on a gateway that runs with a real Redis server."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.server.request_state import InvalidRequestState

from fixtures.redis_server import RedisServer, redis_server
from fixtures.running import running_app
from gatemini.app import App
from gatemini.errors import ConfigError

__all__ = ["redis_server"]
pytestmark = pytest.mark.anyio


@pytest.mark.proves("state.url")
async def test_gateways_on_one_server_share_their_state_and_others_do_not(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with (
        running_app(folder(tmp_path, "one"), {}, state=redis_server.config) as one,
        running_app(folder(tmp_path, "two"), {}, state=redis_server.config) as two,
        running_app(folder(tmp_path, "alone"), {}) as alone,
    ):
        await one.state.put("session:x", b"1", 60)
        assert await two.state.get("session:x") == [b"1"]
        assert await alone.state.get("session:x") == [None]
        assert (one.state.shared, alone.state.shared) == (True, False)


@pytest.mark.proves("state.prefix")
async def test_gateways_with_different_prefixes_share_nothing_on_one_server(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    other = {**redis_server.config, "prefix": "staging:"}
    async with (
        running_app(folder(tmp_path, "one"), {}, state=redis_server.config) as one,
        running_app(folder(tmp_path, "two"), {}, state=other) as two,
    ):
        await one.state.put("session:x", b"1", 60)
        assert await two.state.get("session:x") == [None]
        await two.state.put("session:y", b"1", 60)
    assert b"gatemini:session:x" in redis_server.cli("KEYS", "*")
    assert b"staging:session:y" in redis_server.cli("KEYS", "*")


@pytest.mark.proves("state.keys")
async def test_a_gateway_with_other_keys_cannot_read_what_is_stored(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    new = tmp_path / "new.key"
    new.write_text("another key, which is long enough too")
    new.chmod(0o600)
    shared = redis_server.config
    rotated = {**shared, "keys": [f"secretref:file:{new}", *shared["keys"]]}
    async with (
        running_app(folder(tmp_path, "one"), {}, state=shared) as one,
        running_app(folder(tmp_path, "two"), {}, state={**shared, "keys": [f"secretref:file:{new}"]}) as two,
        running_app(folder(tmp_path, "both"), {}, state=rotated) as both,
    ):
        await one.state.put("session:x", b"1", 60)
        assert await two.state.get("session:x") == [None]
        assert await both.state.get("session:x") == [b"1"]
        await both.state.put("session:x", b"2", 60)
        assert await two.state.get("session:x") == [b"2"]


async def test_request_states_of_one_replica_are_read_by_another_with_the_same_keys(tmp_path: Path) -> None:
    keys = {}
    for name in ("ours", "theirs"):
        path = tmp_path / f"{name}.key"
        path.write_text(f"{name}: a key that is long enough for it")
        path.chmod(0o600)
        keys[name] = {"keys": [f"secretref:file:{path}"]}
    async with (
        running_app(folder(tmp_path, "one"), {}, state=keys["ours"]) as one,
        running_app(folder(tmp_path, "two"), {}, state=keys["ours"]) as two,
        running_app(folder(tmp_path, "other"), {}, state=keys["theirs"]) as other,
        running_app(folder(tmp_path, "alone"), {}) as alone,
    ):
        sealed = one.parking.codec.seal(b"the token of a parked chain")
        assert two.parking.codec.unseal(sealed) == b"the token of a parked chain"
        for stranger in (other, alone):
            with pytest.raises(InvalidRequestState):
                stranger.parking.codec.unseal(sealed)


@pytest.mark.proves("state.blobs")
async def test_large_values_are_files_in_the_blobs_folder(redis_server: RedisServer, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    state = {**redis_server.config, "blobs": str(blobs)}
    with pytest.raises(ConfigError, match=r"state\.blobs: .* is no folder"):
        await start(folder(tmp_path, "early"), state)
    blobs.mkdir()
    async with running_app(folder(tmp_path, "one"), {}, state=state) as app:
        await app.state.put("result:s:1", bytes(2 << 20), 60)
        assert len(list(blobs.iterdir())) == 1
        assert await app.state.get("result:s:1") == [bytes(2 << 20)]


async def test_a_shared_store_without_keys_or_with_a_short_one_stops_the_start(tmp_path: Path) -> None:
    url = "redis+unix:///nowhere/redis.sock"
    with pytest.raises(ConfigError, match=r"a shared store needs keys: \[secretref:"):
        await start(tmp_path, {"url": url})
    short = tmp_path / "short.key"
    short.write_text("sesame")
    short.chmod(0o600)
    with pytest.raises(ConfigError, match=r"(?s)state\.keys\[0\].*a key of 6 characters.*at least 32"):
        await start(tmp_path, {"url": url, "keys": [f"secretref:file:{short}"]})
    with pytest.raises(ConfigError, match="a reference to a secret"):
        await start(tmp_path, {"url": url, "keys": ["the key itself, which is long enough"]})
    with pytest.raises(ConfigError, match=r"state\.url.*redis\+unix:///PATH"):
        await start(tmp_path, {"url": "http://localhost"})


async def test_a_server_that_is_not_there_does_not_stop_the_start(tmp_path: Path) -> None:
    key = tmp_path / "state.key"
    key.write_text("a key of the tests, which is long enough")
    key.chmod(0o600)
    state = {"url": f"redis+unix://{tmp_path}/nowhere.sock", "keys": [f"secretref:file:{key}"]}
    async with running_app(folder(tmp_path, "one"), {}, state=state) as app:
        assert app.loaded.state_keys == ("a key of the tests, which is long enough",)


async def start(folder: Path, state: dict[str, object]) -> App:
    async with running_app(folder, {}, state=state) as app:
        return app


def folder(base: Path, name: str) -> Path:
    made = base / name
    made.mkdir()
    return made
