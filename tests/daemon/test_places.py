"""Where the files of a daemon are, and how its process is started."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.daemons import LEGACY, Home, until
from gatemini.proxy import places
from gatemini.proxy.places import PASSED_ON, SUN_PATH_BYTES, PlaceRefused, place_of


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder whose path leaves room for that of a socket; the one of pytest is longer, with several test processes."""
    with tempfile.TemporaryDirectory(prefix="gm-") as folder:
        yield Path(folder)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_the_key_is_of_the_real_configuration_the_interpreter_and_the_user(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, link, other = tmp_path / "config.yaml", tmp_path / "link.yaml", tmp_path / "other.yaml"
    link.symlink_to(config)

    def key(path: Path | None) -> str:
        return place_of(str(path) if path else None, environ).key

    first = key(config)
    assert len(first) == 12
    assert int(first, 16) >= 0
    assert key(link) == first
    assert len({first, key(other), key(None)}) == 3
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    elsewhere = key(config)
    monkeypatch.undo()
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    monkeypatch.setattr(places, "private_folder", lambda folder: None)
    assert len({first, elsewhere, key(config)}) == 3


def test_all_files_are_below_the_runtime_folder_named_for_the_key(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    place = place_of(None, environ)
    stem = f"{tmp_path}/gatemini/{place.key}"
    assert [place.sock, place.lock, place.pid, place.log] == [
        f"{stem}.{kind}" for kind in ("sock", "lock", "pid", "log")
    ]
    assert os.stat(place.folder).st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        ("long", f"too long for the path of a socket ({SUN_PATH_BYTES} bytes)"),
        ("absent", "no directory"),
        ("", ""),
    ],
)
def test_without_a_usable_runtime_folder_it_is_in_tmp_and_the_reason_is_named(
    runtime: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallback = tmp_path / "gatemini-1"
    monkeypatch.setattr(places, "fallback_folder", lambda: str(fallback))
    paths = {"long": tmp_path / ("x" * SUN_PATH_BYTES), "absent": tmp_path / "absent", "": ""}
    if runtime == "long":
        Path(paths["long"]).mkdir()
    place = place_of(None, {"XDG_RUNTIME_DIR": str(paths[runtime])})
    assert place.folder == str(fallback)
    assert reason in place.fallback
    assert bool(reason) == bool(place.fallback)


def test_a_folder_that_cannot_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceRefused, match="is no directory of its own"):
        places.private_folder(str(tmp_path / "file"))
    with pytest.raises(PlaceRefused, match="cannot be made: No such file or directory"):
        places.private_folder(str(tmp_path / "absent" / "gatemini"))


def test_a_daemon_is_detached_and_gets_only_the_variables_that_every_child_gets(home: Home) -> None:
    home.write_config(daemon={"idle_timeout": "60s"}, aliases={"NAMED_TOKEN": "ledger.look"})
    given = {
        "XDG_OWN": "x",
        "OTHER_TOKEN": "secret-of-the-client",
        "NAMED_TOKEN": "named-by-the-configuration",
    }
    client = home.client(environ=given)
    client.greet()
    home.serving()
    [daemon] = home.daemons()
    environ = daemon.environ()
    assert environ["XDG_OWN"] == "x"
    assert {
        n for n in environ if n not in PASSED_ON and not n.startswith(("XDG_", "GATEMINI_", "LC_"))
    } == set()
    assert os.getsid(daemon.pid) not in (os.getsid(0), os.getsid(client.process.pid))
    assert daemon.cwd() == str(home.root)
    log = os.stat(home.place.log)
    assert [os.path.samestat(os.stat(f"/proc/{daemon.pid}/fd/{n}"), log) for n in (0, 1, 2)] == [
        False,
        True,
        True,
    ]
    pid, started = Path(home.place.pid).read_text().split()
    assert int(pid) == daemon.pid
    assert abs(float(started) - daemon.create_time()) < 5
    assert os.stat(home.place.sock).st_mode & 0o777 == 0o600
    # What it keeps of the client's variables are those that the configuration names.
    later = home.client(environ={**given, "OTHER_TOKEN": "another", "NAMED_TOKEN": "another"})
    later.greet()
    assert home.serving()["variables_differ"] == ["NAMED_TOKEN"]
    assert (
        "other values came with later clients: NAMED_TOKEN"
        in home.command("status", "-c", str(home.config)).stdout
    )


def test_a_daemon_listens_before_it_imports_anything_heavy(home: Home) -> None:
    code = (
        "import sys; from gatemini.daemon import serve\n"
        "class Listener:\n"
        "    def __init__(self, *_): pass\n"
        "    def open(self): print(*sorted({name.partition('.')[0] for name in sys.modules})); raise SystemExit\n"
        "serve.Listener = Listener; serve.main(['-c', sys.argv[1]])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(home.config)],
        env=home.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert set(shown).isdisjoint(
        {"anyio", "asyncio", "mcp", "orjson", "psutil", "pydantic", "yaml", "ruamel"}
    )


@pytest.mark.parametrize("kind", ["lock", "log", "sock", "pid"])
@pytest.mark.parametrize("as_link", [False, True], ids=["folder", "link"])
def test_a_file_that_is_none_of_ours_is_named_at_once(home: Home, kind: str, as_link: bool) -> None:
    path = Path(getattr(home.place, kind))
    if as_link:
        path.symlink_to(home.root / "elsewhere")
    else:
        path.mkdir()
        (path / "file").write_text("")
    client = home.client()
    answer = client.answer(client.send("initialize", LEGACY), 15)
    if kind == "sock" and as_link:  # a link is unlinked as any name that nobody answers
        assert "result" in answer
    else:
        assert str(path) in answer["error"]["message"]
    assert not (home.root / "elsewhere").exists()


def test_a_second_daemon_of_one_configuration_is_refused(home: Home) -> None:
    home.client().greet()
    pid = home.serving()["pid"]
    refused = home.run("serve", "-c", str(home.config))
    assert refused.returncode == 1
    assert f"a daemon of this configuration runs already: process {pid}" in refused.stderr
    until(lambda: home.serving()["pid"] == pid, "the first serves on")
