"""The cache: warm when it is exactly ours, cold with a warning for anything else, never a crash."""

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatemini.cache import VERSION, Cache, config_hash
from gatemini.config.model.schema import BackendConfig
from gatemini.model import Tool

LOAD_SECONDS = 60.0
"""Longer than any load takes; one that waits for a pipe never ends."""

TOOL = Tool(
    "demo", "echo", "Says it again.", {"type": "object", "properties": {"x": {}}}, tags=("t",), repairs=("r",)
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def filled(path: Path) -> Cache:
    cache = Cache(path)
    cache.put_tools("demo", "hash", [TOOL])
    cache.put_era("demo", "hash", "2026-07-28")
    cache.put_usage({"demo.echo": 3})
    return cache


def test_saved_content_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.json"
    assert filled(path).save()
    again = Cache(path)
    again.load()
    assert again.problem is None
    assert again.tools("demo", "hash") == [TOOL]
    assert again.era("demo", "hash") == "2026-07-28"
    assert again.usage == {"demo.echo": 3}


def test_a_missing_file_is_no_problem(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache.json")
    cache.load()
    assert cache.problem is None
    assert cache.tools("demo", "hash") is None


def test_a_changed_configuration_makes_its_tools_stale(tmp_path: Path) -> None:
    before = config_hash(BackendConfig(name="demo", command="srv"))
    after = config_hash(BackendConfig(name="demo", command="srv", args=("-v",)))
    cache = Cache(tmp_path / "cache.json")
    cache.put_tools("demo", before, [TOOL])
    cache.put_era("demo", before, "old")
    assert cache.tools("demo", before) == [TOOL]
    assert cache.tools("demo", after) is None
    assert cache.era("demo", after) is None
    cache.put_tools("demo", after, [])
    assert cache.era("demo", after) is None


def test_no_part_of_a_configuration_is_written(tmp_path: Path) -> None:
    config = BackendConfig(name="demo", command="srv", env={"TOKEN": "hunter2"})
    cache = Cache(tmp_path / "cache.json")
    cache.put_tools("demo", config_hash(config), [TOOL])
    cache.save()
    assert "hunter2" not in cache.path.read_text()


def test_the_file_is_private_and_written_as_a_whole(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache.json")
    cache.save()
    assert cache.path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["cache.json"]


GOOD = {"version": VERSION, "backends": {}, "usage": {}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe",
        b'{"version":1,"backends":{',
        b"[]",
        b"null",
        b"[" * 100_000,
        json.dumps({**GOOD, "version": 1}).encode(),
        json.dumps({**GOOD, "version": True}).encode(),
        json.dumps({**GOOD, "extra": 1}).encode(),
        json.dumps({**GOOD, "usage": {"a": "many"}}).encode(),
        json.dumps({**GOOD, "backends": {"a": {"config": "x", "tools": [{"name": 5}]}}}).encode(),
        json.dumps(
            {**GOOD, "backends": {"a": {"config": "x", "tools": [{"name": "t", "input_schema": []}]}}}
        ).encode(),
    ],
)
def test_anything_else_in_the_file_is_set_aside_with_a_warning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    cache = Cache(path)
    cache.load()
    assert cache.problem is not None
    assert "set aside as cache.json.bad; starting without it" in cache.problem
    assert (tmp_path / "cache.json.bad").read_bytes() == content
    assert not path.exists()
    cache.put_usage({"a.b": 1})
    assert cache.save()


IN_ITS_PLACE: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a pipe that nobody writes to": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("what", IN_ITS_PLACE)
def test_anything_but_a_regular_file_is_set_aside_unread(tmp_path: Path, what: str) -> None:
    path = tmp_path / "cache.json"
    IN_ITS_PLACE[what](path)
    cache = Cache(path)
    loading = threading.Thread(target=cache.load, daemon=True)
    loading.start()
    loading.join(LOAD_SECONDS)
    assert not loading.is_alive()
    assert cache.problem is not None
    assert "is not a regular file; set aside as cache.json.bad" in cache.problem
    cache.put_usage({"a.b": 1})
    assert cache.save()
    assert path.is_file()
    assert not path.is_symlink()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 400))
def test_a_damaged_file_never_raises(tmp_path: Path, noise: bytes, at: int) -> None:
    path = tmp_path / "cache.json"
    filled(path).save()
    data = path.read_bytes()
    path.write_bytes(data[:at] + noise + data[at + len(noise) :])
    cache = Cache(path)
    cache.load()
    cache.tools("demo", "hash")


def test_on_a_full_disk_the_old_file_stays_and_the_content_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path, clock = tmp_path / "cache.json", Clock()
    filled(path).save()
    before = path.read_bytes()
    cache = Cache(path, clock=clock)
    cache.load()
    cache.put_usage({"x.y": 9})
    with full_disk():
        assert not cache.save()
    assert "could not be written" in caplog.text
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["cache.json"]
    clock.now = 5
    assert cache.due
    assert cache.save()
    assert orjson.loads(path.read_bytes())["usage"] == {"x.y": 9}


def test_changes_during_a_save_are_due_again(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "cache.json"
    cache = Cache(path, clock=clock)

    cache.put_usage({"a.b": 1})
    started, go_on = threading.Event(), threading.Event()

    def slowly(number: int) -> None:
        started.set()
        go_on.wait(60)
        fsync(number)

    fsync = os.fsync
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", slowly)
        writer = threading.Thread(target=cache.save)
        writer.start()
        assert started.wait(60)
        cache.put_tools("late", "hash", [TOOL])
        go_on.set()
        writer.join()
    clock.now = 5
    assert cache.due
    cache.save()
    assert "late" in orjson.loads(path.read_bytes())["backends"]


def test_a_change_is_due_but_not_more_often_than_every_few_seconds(tmp_path: Path) -> None:
    clock = Clock()
    cache = Cache(tmp_path / "cache.json", clock=clock)
    assert not cache.due
    cache.put_usage({"a.b": 1})
    assert cache.due
    cache.save()
    assert not cache.due
    cache.put_usage({"a.b": 2})
    assert not cache.due
    clock.now = 5
    assert cache.due
    cache.save()
    cache.put_usage({"a.b": 2})
    clock.now = 50
    assert not cache.due


def test_backends_no_longer_configured_are_forgotten(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache.json")
    cache.put_tools("other", "hash", [TOOL])
    cache.forget(["demo", "never there"])
    assert cache.tools("demo", "hash") is None
    assert cache.tools("other", "hash") is not None


def test_two_gateways_with_one_file_never_leave_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    go = threading.Barrier(2)

    def gateway(name: str) -> None:
        cache = Cache(path)
        go.wait(60)
        for number in range(40):
            cache.put_tools(name, f"hash{number}", [replace(TOOL, backend=name)] * 50)
            assert cache.save()
            reader = Cache(path)
            reader.load()
            assert reader.problem is None

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(gateway, ("one", "two"))) == [None, None]
    assert [file.name for file in tmp_path.iterdir()] == ["cache.json"]
