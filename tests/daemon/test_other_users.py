"""Another user of the machine gets nothing of a daemon. These tests need to be root, to be another user as well."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fixtures.daemons import Home
from gatemini.proxy.places import PlaceRefused, private_folder

NOBODY = 65534
CONNECT = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
try:
    sock.connect(sys.argv[1])
    sock.sendall(b'{"gatemini": 1, "version": "0", "pid": 1, "control": "status"}\\n')
    print(sock.recv(65536))
except OSError as error:
    print(type(error).__name__)
"""

pytestmark = pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root can be two users")


def as_nobody(code: str, *words: str) -> str:
    ran = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", code, *words],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def open_up(*paths: Path) -> None:
    for path in paths:
        path.chmod(0o777)


def test_another_user_cannot_reach_the_socket_and_gets_nothing_where_it_can(home: Home) -> None:
    home.client().greet()
    home.serving()
    sock, folder = home.place.sock, Path(home.place.folder)
    assert as_nobody(CONNECT, sock) == "PermissionError"
    open_up(home.root, home.root / "run", folder, Path(sock))
    # The daemon asks the system who it is, and closes; what was sent may be unread then.
    assert as_nobody(CONNECT, sock) in ("b''", "ConnectionResetError", "BrokenPipeError")
    folder.chmod(0o700)
    assert home.serving()["state"] == "serving"


def test_what_a_daemon_leaves_is_closed_to_other_users(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.chain("return await ledger.look({})"))
    home.root.chmod(0o755)
    state = home.root / "state" / "gatemini"
    left = [p for top in (Path(home.place.folder), state / "sessions") for p in (top, *top.rglob("*"))]
    assert len(left) > 5
    look = "import os, sys; print([p for p in sys.argv[1:] if os.access(p, os.R_OK | os.W_OK)])"
    assert as_nobody(look, *map(str, left)) == "[]"


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "gatemini"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(PlaceRefused):
        private_folder(str(folder))
