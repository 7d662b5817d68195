"""The ways to reach a server: a unix socket, TCP and TLS, with a password."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from fixtures.certificates import signed
from fixtures.ports import free_port
from fixtures.redis_server import KEY, READY_SECONDS, server_command
from gatemini.config.model.http.state import StateConfig
from gatemini.errors import StateUnavailable
from gatemini.state.redis import RedisStore

PASSWORD = "correct horse/battery@staple"
QUOTED = quote(PASSWORD, safe="")


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """The addresses of one server by kind; PASSWORD stands for it."""
    command = server_command()
    if command is None:
        pytest.skip("needs redis-server or valkey-server (apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        authority, certificate = signed(Path(folder))
        plain, tls, path = free_port(), free_port(), f"{folder}/redis.sock"
        options = f"--port {plain} --bind 127.0.0.1 --tls-port {tls} --tls-auth-clients no --unixsocket {path} --dir {folder}"
        files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(certificate), "--save", ""]
        with Path(folder, "log").open("wb") as log:
            server = subprocess.Popen(
                [*command, *options.split(), *files, "--requirepass", PASSWORD], stdout=log, stderr=log
            )
        try:
            end = time.monotonic() + READY_SECONDS
            while not Path(path).exists():
                if server.poll() is not None:
                    pytest.skip(f"the server has no TLS: {Path(folder, 'log').read_text()[-200:]}")
                assert time.monotonic() < end
                time.sleep(0.005)
            yield {
                "unix": f"redis+unix://:PASSWORD@{path}",
                "tcp": f"redis://:PASSWORD@127.0.0.1:{plain}/0",
                "tls": f"rediss://:PASSWORD@localhost:{tls}/0?ssl_ca_certs={authority}",
                "unknown authority": f"rediss://:PASSWORD@localhost:{tls}/0",
            }
        finally:
            server.terminate()
            server.wait(READY_SECONDS)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["unix", "tcp", "tls"])
async def test_a_store_is_reached_with_its_password_only(urls: dict[str, str], kind: str) -> None:
    url = urls[kind].replace("PASSWORD", QUOTED)
    assert StateConfig.model_validate({"url": url, "keys": ["secretref:file:state.key"]}).shared
    async with RedisStore(url, f"{kind}:", [KEY]).opened() as store:
        await store.put("session:x", b"1", 60)
        assert await store.get("session:x") == [b"1"]
        assert store.problem is None
    async with RedisStore(urls[kind].replace("PASSWORD", "wrong"), f"{kind}:", [KEY]).opened() as store:
        with pytest.raises(StateUnavailable) as refused:
            await store.get("session:x")
        assert "wrong" not in refused.value.message


@pytest.mark.anyio
async def test_a_server_whose_authority_is_unknown_is_not_believed(urls: dict[str, str]) -> None:
    url = urls["unknown authority"].replace("PASSWORD", QUOTED)
    async with RedisStore(url, "g:", [KEY]).opened() as store:
        with pytest.raises(StateUnavailable):
            await store.get("session:x")
        with anyio.fail_after(60):
            while store.problem is None:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)


def test_the_password_of_an_address_is_a_secret_in_each_form_in_which_it_is_written() -> None:
    for url in (f"redis://:{QUOTED}@127.0.0.1:1", f"redis+unix:///run/redis.sock?password={QUOTED}"):
        config = StateConfig.model_validate({"url": url, "keys": ["secretref:file:state.key"]})
        assert {PASSWORD, QUOTED} <= {value for _, value in config.secrets}
        assert PASSWORD not in repr(config)
        assert QUOTED not in repr(config)
