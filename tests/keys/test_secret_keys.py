"""Keys of `secrets`: each changes what a backend of the running gateway is given, or that it is hidden."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from fixtures.backend_bench import ODD
from fixtures.config_keys import with_key
from fixtures.direct import write_config
from fixtures.running import answer
from gatemini.app import App
from gatemini.errors import ConfigError

pytestmark = [pytest.mark.anyio, pytest.mark.long]


def asking(secret: str) -> dict[str, Any]:
    """A configuration with a backend that gets this secret and returns its length."""
    args = ["-I", "-S", str(ODD)]
    backend = {"command": sys.executable, "args": args, "env": {"GIVEN": secret}}
    return {"backends": {"demo": backend}}


async def given(folder: Path, config: dict[str, Any], environ: dict[str, str] | None = None) -> str:
    """What the backend got, its letters apart so that nothing is hidden; or why it was not started."""
    path = write_config(folder, **config)
    async with App.open(path, environ=environ or {}) as app:
        assert await app.settled(60)
        if "demo" in app.loaded.disabled:
            return "\n".join(map(str, app.loaded.problems))
        text, _, _ = await answer(app, "return [...(await demo.env({})).GIVEN].join(' ');")
    return text.replace(" ", "")


@pytest.mark.proves("secrets.redact")
async def test_the_configured_variables_are_hidden(tmp_path: Path) -> None:
    args = ["-I", "-S", str(ODD), "{}", "${SHOWN_VALUE}"]
    base = {"backends": {"demo": {"command": sys.executable, "args": args}}}
    for hidden in ([], ["SHOWN_VALUE"]):
        path = write_config(tmp_path, **with_key(base, "secrets.redact", hidden))
        async with App.open(path, environ={"SHOWN_VALUE": "in-the-open-1"}) as app:
            text, _, _ = await answer(app, "return 'in-the-' + 'open-1';")
        assert ("in-the-open-1" in text) is (not hidden)


@pytest.mark.proves("secrets.strict")
async def test_strict_mode_stops_the_start_for_an_unresolved_secret(tmp_path: Path) -> None:
    base = asking("${NOT_SET_ANYWHERE}")
    assert "NOT_SET_ANYWHERE" in await given(tmp_path, base)
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        await given(tmp_path, with_key(base, "secrets.strict", True))


@pytest.mark.proves("secrets.commands", "secrets.command_timeout")
async def test_secret_commands_run_with_their_configured_timeout(tmp_path: Path) -> None:
    words = [sys.executable, "-IS", "-c", "import time; time.sleep(0.5); print('printed-by-it')"]
    base = asking("secretref:command:own")
    assert "secrets.commands.own" in await given(tmp_path, base)
    base = with_key(base, "secrets.commands", {"own": words})
    assert await given(tmp_path, base) == "printed-by-it"
    assert "secrets.command_timeout" in await given(
        tmp_path, with_key(base, "secrets.command_timeout", "50ms")
    )


class _OneService(KeyringBackend):
    """The library's own interface, over a dictionary."""

    priority = 1  # type: ignore[assignment]
    kept = {("gatemini", "key"): "of-gatemini", ("other", "key"): "of-another"}  # noqa: RUF012 - never changed

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.mark.proves("secrets.keyring.service")
async def test_the_keychain_is_read_under_the_configured_service(tmp_path: Path) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(_OneService())
    try:
        base = asking("secretref:keyring:key")
        assert await given(tmp_path, base) == "of-gatemini"
        assert await given(tmp_path, with_key(base, "secrets.keyring.service", "other")) == "of-another"
    finally:
        keyring.set_keyring(before)
