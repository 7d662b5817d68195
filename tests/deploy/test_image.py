"""The container file, executed step by step, and what it makes, run as a cluster would run it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest

from fixtures import container
from fixtures.container import ROOT, Image, needs_namespaces
from fixtures.daemons import MODERN, until
from fixtures.http_gateway import result
from fixtures.ports import free_port
from fixtures.redis_server import redis_running

pytestmark = [needs_namespaces, pytest.mark.long]

WRITABLE = ("/tmp", "/var/lib/gatemini")
HEADERS = {
    "Host": "tools.example.com",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "call_tool_chain",
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return container.build(tmp_path_factory.mktemp("image"))


class Volumes:
    """Configuration, secrets, audit log and the store's socket, as compose.yaml mounts them."""

    def __init__(self, folder: Path, redis: Path) -> None:
        self.secrets, self.audit, self.blobs = folder / "secrets", folder / "audit", folder / "blobs"
        shutil.copytree(ROOT / "deploy" / "config", folder / "config")
        config = folder / "config" / "config.yaml"
        config.write_text(config.read_text().replace("/run/valkey/valkey.sock", "/run/valkey/redis.sock"))
        for made in (self.secrets, self.audit, self.blobs):
            made.mkdir()
        for owned in (self.audit, self.blobs):
            os.chown(owned, 10001, 10001)
        for name in ("state.key", "audit.key"):
            (self.secrets / name).write_text(os.urandom(32).hex() + "\n")
            (self.secrets / name).chmod(0o600)
        self.binds = {
            folder / "config": "/etc/gatemini",
            self.secrets: "/run/secrets/gatemini",
            self.audit: "/var/log/gatemini",
            self.blobs: "/srv/gatemini",
            redis: "/run/valkey",
        }

    def hand_over(self) -> None:
        """Secrets are root's, and the group of the image may read them."""
        for path in (self.secrets, *self.secrets.iterdir()):
            os.chown(path, 0, 10001)
            path.chmod(0o750 if path.is_dir() else 0o640)


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volumes]:
    with redis_running() as server:
        os.chmod(server.folder, 0o755)
        server.socket.chmod(0o770)
        os.chown(server.socket, -1, 10001)
        yield Volumes(tmp_path_factory.mktemp("volumes"), server.folder)


@pytest.fixture(scope="module")
def token(image: Image, volumes: Volumes) -> str:
    """Made as docs/deploying.md says: the first by the owner of the files, later ones by root with the image's group."""

    def made(user: str) -> str:
        words = [*image.entrypoint, "token", "create", "--client", "ci-build"]
        running = container.run(
            image, words, user=user, binds=volumes.binds, tmpfs=WRITABLE, stdout=subprocess.PIPE
        )
        with running as process:
            found = process.communicate(timeout=60)[0].strip()
        assert found.startswith("gtm_")
        volumes.hand_over()
        return found

    made("0:0")
    return made("0:10001")


def test_the_image_writes_the_pins_of_a_changed_configuration(
    image: Image, volumes: Volumes, tmp_path: Path
) -> None:
    """Before the secrets are handed over, by the user that has both folders."""
    config, secrets = tmp_path / "config", tmp_path / "secrets"
    shutil.copytree(ROOT / "deploy" / "config", config)
    secrets.mkdir()
    pins = config / "gatemini.lock.yaml"
    committed = pins.read_text()
    pins.unlink()
    for name in ("state.key", "audit.key"):
        (secrets / name).write_text(os.urandom(32).hex())
        (secrets / name).chmod(0o600)
    for path in (config, secrets, *config.iterdir(), *secrets.iterdir()):
        os.chown(path, 4711, 4711)
    running = container.run(
        image,
        [*image.entrypoint, "pin"],
        user="4711:4711",
        binds={config: "/etc/gatemini", secrets: "/run/secrets/gatemini"},
        tmpfs=(*WRITABLE, "/srv/gatemini", "/var/log/gatemini"),
        stdout=subprocess.PIPE,
    )
    with running as process:
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said
    assert pins.read_text() == committed


@pytest.fixture
def unused_port() -> int:
    return free_port()


@contextmanager
def replica(image: Image, volumes: Volumes, port: int) -> Iterator[subprocess.Popen[str]]:
    words = [*image.entrypoint, *image.command, f"0.0.0.0:{port}"]
    running = container.run(image, words, binds=volumes.binds, tmpfs=WRITABLE, stdout=subprocess.PIPE)
    with running as process:
        assert process.stdout is not None
        assert '"url"' in process.stdout.readline()
        yield process


def chain(port: int, code: str, token: str) -> httpx2.Response:
    params = {"name": "call_tool_chain", "arguments": {"code": code}, "_meta": MODERN}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {**HEADERS, "Authorization": f"Bearer {token}"}
    return httpx2.post(
        f"http://127.0.0.1:{port}/mcp", json=message, headers=headers, timeout=60, trust_env=False
    )


def test_the_steps_of_the_container_file_install_the_product_and_nothing_that_the_lock_does_not_name(
    image: Image,
) -> None:
    (packages,) = (image.layer / "opt/gatemini/lib").glob("python3.*/site-packages")
    installed = {
        path.name.partition("-")[0].lower().replace("_", "-") for path in packages.glob("*.dist-info")
    }
    locked = (ROOT / "requirements" / "serve.txt").read_text()
    named = {
        line.partition("==")[0].replace(".", "-").lower() for line in locked.splitlines() if "==" in line
    }
    assert installed - named == {"gatemini"}
    assert {"redis", "uvicorn", "wasmtime"} <= installed
    assert not (image.layer / "src").exists()


def test_it_serves_as_its_user_with_nothing_but_its_volumes_writable(
    image: Image, volumes: Volumes, token: str, unused_port: int
) -> None:
    with replica(image, volumes, unused_port) as process:
        base = f"http://127.0.0.1:{unused_port}"
        until(lambda: httpx2.get(f"{base}/readyz", trust_env=False).status_code == 200, "it is ready")
        assert (
            httpx2.post(f"{base}/mcp", json={}, headers=HEADERS, trust_env=False, timeout=60).status_code
            == 401
        )
        found = result(
            chain(unused_port, "return (await clock.list_time_zones({})).timezones.length;", token)
        )
        assert int(found["content"][0]["text"]) > 100
        large = 'const kept = await results.save("x".repeat(2_000_000)); return kept.handle;'
        assert not result(chain(unused_port, large, token)).get("isError")
        assert len(list(volumes.blobs.iterdir())) == 1
        (first,) = psutil.Process(process.pid).children()
        every = [first, *first.children(recursive=True)]
        assert {each.uids().real for each in every} == {10001}
        assert len(every) > 1, "the sandbox has processes of its own"
        status = Path(f"/proc/{first.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "CapBnd:\t0000000000000000" in status
        environ = Path(f"/proc/{first.pid}/environ").read_text().split("\0")
        assert {each.partition("=")[0] for each in environ if each} == {*image.env, "PATH"}
        mounts = Path(f"/proc/{first.pid}/mounts").read_text().splitlines()
        assert [line.split()[3].partition(",")[0] for line in mounts if line.split()[1] == "/"] == ["ro"]
        assert healthcheck(image, first.pid) == 0
        assert container.stop(process) == 0
    assert list((volumes.audit / "audit").glob("*.jsonl")), "what it called is in the audit log"


def healthcheck(image: Image, pid: int) -> int:
    """The exit code of the image's health check, in the namespaces of a running container."""
    uid, _, gid = image.user.partition(":")
    enter = ["nsenter", "-t", str(pid), "--mount", "--pid", "--root"]
    user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    env = ["env", "-i", *(f"{name}={value}" for name, value in image.env.items())]
    return subprocess.run([*enter, *user, *env, *image.healthcheck], stdout=subprocess.DEVNULL).returncode


def test_without_its_secrets_it_does_not_start(image: Image, volumes: Volumes, tmp_path: Path) -> None:
    binds = {path: place for path, place in volumes.binds.items() if path != volumes.secrets}
    words = [*image.entrypoint, *image.command]
    with container.run(
        image, words, binds={**binds, tmp_path: "/run/secrets/gatemini"}, tmpfs=WRITABLE
    ) as process:
        assert process.wait(60) == 1
