"""A registered backend is reached at the address that was checked, even if its name resolves to another one later."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from fixtures.odd_http import OddHttp, serving
from fixtures.running import running_app
from gatemini.config.model.schema import RegistrationConfig
from gatemini.errors import BackendUnreachable
from gatemini.protocol.registration.admission import Admission

pytestmark = pytest.mark.anyio

NAME = "rebound.test"


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Answer lookups of the name with one address after the other, the last one from then on."""
    real, left = socket.getaddrinfo, list(addresses)

    def told(host: Any, *rest: Any, **more: Any) -> Any:
        if host in (NAME, NAME.encode()):
            host = left.pop(0) if len(left) > 1 else left[0]
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", told)


async def registered(folder: Path, port: int) -> tuple[bool, str]:
    template = {"name": "far", "url": f"http://{NAME}:{port}/mcp"}
    policy = {"http": "allow", "allow_hosts": [NAME]}
    async with running_app(folder, registration=policy) as app:
        result = await app.call_meta_tool("register_manual", {"manual_call_template": template})
    return result["isError"], result["content"][0]["text"]


async def test_a_host_with_an_unchanged_address_is_connected_and_named_in_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "127.0.0.1")
    async with serving(OddHttp()) as server:
        failed, text = await registered(tmp_path, server.port)
        assert not failed, text
        assert {request.headers["host"] for request in server.seen} == {f"{NAME}:{server.port}"}


async def test_a_host_that_a_person_agreed_to_is_not_connected_at_a_private_address_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(monkeypatch, "93.184.216.34", "10.1.2.3")
    admission = Admission(RegistrationConfig(), "config.yaml")
    assert await admission.permitted(NAME) == ["93.184.216.34"]
    with pytest.raises(BackendUnreachable, match="registered backends may not connect there"):
        await admission.permitted(NAME)


async def test_a_host_with_an_address_changed_after_the_check_is_not_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "127.0.0.1", "169.254.169.254")
    async with serving(OddHttp()) as server:
        failed, text = await registered(tmp_path, server.port)
    assert failed
    assert "registered backends may not connect there" in text
    assert not server.seen
