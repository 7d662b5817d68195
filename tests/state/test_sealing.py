"""What a copy of the shared store shows: names and numbers, no data."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from fixtures.redis_server import KEY, RedisServer, redis_server
from fixtures.running import until
from gatemini.errors import StateUnavailable
from gatemini.state.blobs import INLINE_BYTES, YOUNG_SECONDS, Blobs
from gatemini.state.sealing import Sealer

__all__ = ["redis_server"]
OTHER = "another key of the tests, long enough"
DATA = b"the payroll of ACME"


def test_a_sealed_value_is_read_with_its_key_and_name_only(caplog: pytest.LogCaptureFixture) -> None:
    sealed = Sealer([KEY]).seal("result:s:1", DATA)
    assert DATA not in sealed
    assert Sealer([KEY]).unseal("result:s:1", sealed) == DATA
    assert Sealer([OTHER, KEY]).unseal("result:s:1", sealed) == DATA
    assert Sealer([KEY]).unseal("result:s:2", sealed) is None
    assert Sealer([OTHER]).unseal("result:s:1", sealed) is None
    assert "is not sealed with any of state.keys" in caplog.text


@pytest.mark.parametrize("at", [0, 3, 9, 20, -1])
def test_a_changed_or_cut_value_is_not_read(at: int) -> None:
    sealed = bytearray(Sealer([KEY]).seal("result:s:1", DATA))
    sealed[at] ^= 1
    assert Sealer([KEY]).unseal("result:s:1", bytes(sealed)) is None
    assert Sealer([KEY]).unseal("result:s:1", bytes(sealed)[:at]) is None


def test_equal_values_look_alike_only_where_a_set_needs_it() -> None:
    sealer = Sealer([KEY])
    assert sealer.seal("reads:s", DATA) != sealer.seal("reads:s", DATA)
    assert sealer.seal_alike("reads:s", DATA) == sealer.seal_alike("reads:s", DATA)
    assert sealer.seal_alike("reads:s", DATA) != sealer.seal_alike("reads:t", DATA)
    assert sealer.seal_alike("reads:s", DATA) != sealer.seal_alike("reads:s", DATA + b"!")
    assert sealer.unseal("reads:s", sealer.seal_alike("reads:s", DATA)) == DATA


@pytest.mark.anyio
async def test_the_servers_files_hold_no_data(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as store:
        await store.put("result:s:1", DATA, 600)
        await store.put_new("result:s:2", DATA, 600)
        await store.append("journal:s:1", [DATA], 600)
        await store.add("reads:s", [DATA.decode()], 600)
        await store.send("parked:s", DATA, 600)
        await store.publish("tools", DATA)
    await anyio.to_thread.run_sync(redis_server.stop)
    written = b"".join(path.read_bytes() for path in files(redis_server.folder))
    assert all(name in written for name in (b"result:s:2", b"journal:s:1", b"reads:s", b"parked:s"))
    assert not any(word in written for word in (b"payroll", b"ACME", KEY.encode()))


@pytest.mark.anyio
async def test_values_that_were_moved_or_forged_in_the_store_are_ignored(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as store:
        await store.put("grant:mine", DATA, 600)
        redis_server.cli("COPY", "gatemini:grant:mine", "gatemini:grant:yours")
        redis_server.cli("SET", "gatemini:grant:forged", "granted")
        assert await store.get("grant:yours", "grant:forged", "grant:mine") == [None, None, DATA]
        assert await store.take("grant:yours") is None
        await store.append("journal:s:c", [b"1"], 600)
        redis_server.cli("RPUSH", "gatemini:journal:s:c", "forged")
        with pytest.raises(StateUnavailable, match="journal:s:c in the state store is not sealed"):
            await store.entries("journal:s:c")


@pytest.mark.anyio
async def test_a_large_value_is_a_sealed_file_which_goes_with_its_key(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    large, longer = DATA * (INLINE_BYTES // len(DATA) + 1), DATA * (INLINE_BYTES // len(DATA) + 2)
    async with (
        redis_server.store(blobs=tmp_path).opened() as a,
        redis_server.store(blobs=tmp_path).opened() as b,
    ):
        await a.put("result:s:1", large, 600)
        assert await b.get("result:s:1") == [large]
        assert len(redis_server.cli("GET", "gatemini:result:s:1")) < 100
        [file] = files(tmp_path)
        assert DATA not in file.read_bytes()
        await b.put("result:s:1", longer, 600)
        assert await a.take("result:s:1") == longer
        assert files(tmp_path) == [file]  # of the value that was replaced; the sweep deletes it
        file.unlink()
        await a.put("result:s:2", large, 600)
        files(tmp_path)[0].unlink()
        assert await b.get("result:s:2") == [None]
        await a.put("result:s:2", large, 600)
        await b.delete("result:s:2")
        assert files(tmp_path) == []
        await a.append("repeated:s", [DATA], 600)
        await b.delete("repeated:s")
        assert await a.entries("repeated:s") == []
        await a.put("result:s:3", DATA, 600)
        assert (files(tmp_path), await b.get("result:s:3")) == ([], [DATA])


@pytest.mark.anyio
async def test_a_large_value_that_is_put_while_its_key_is_deleted_keeps_its_file(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    large = DATA * (INLINE_BYTES // len(DATA) + 1)
    async with redis_server.store(blobs=tmp_path).opened() as store:
        await store.put("result:s:1", large, 600)
        [before] = files(tmp_path)
        with redis_server.paused():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.delete, "result:s:1")
                tasks.start_soon(store.put, "result:s:1", large, 600)
                await until(lambda: len(files(tmp_path)) == 2)
                assert redis_server.process is not None
                redis_server.process.send_signal(signal.SIGCONT)
        there = b":1" in redis_server.cli("EXISTS", "gatemini:result:s:1")
        assert await store.get("result:s:1") == [large if there else None]
        assert len({*files(tmp_path)} - {before}) == there


@pytest.mark.anyio
async def test_files_of_keys_that_have_ended_are_deleted(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, Sealer([KEY]))
    names = ["g:result:s:gone", "g:result:s:kept", "g:result:s:new"]
    kept = {name: await blobs.keep(name, bytes(INLINE_BYTES + 1)) for name in names}
    replaced = names[1], await blobs.keep(names[1], bytes(INLINE_BYTES + 1))
    assert replaced[1] != kept[names[1]]
    old = time.time() - YOUNG_SECONDS - 1
    for path in files(tmp_path):
        if "new" not in path.name:
            os.utime(path, (old, old))

    async def read(asked: Sequence[str]) -> list[bytes | None]:
        assert sorted(asked) == [names[0], names[1], names[1]]
        return [kept[name] if "kept" in name else None for name in asked]

    await blobs.sweep(read)
    left = sorted(path.name.rpartition("%3A")[2] for path in files(tmp_path))
    assert left == [f"{name.rpartition(':')[2]}{kept[name].decode()}" for name in names[1:]]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
