"""`oauth` of a backend: what it excludes, and that its secret is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gatemini.config.load import load_config
from gatemini.config.model.backend import BackendConfig
from gatemini.config.registered_backend import dynamic_backend
from gatemini.errors import ConfigError

URL = "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"command": "x", "oauth": {}}, "for backends with a url"),
        ({"url": "http://tools.example.com/mcp", "oauth": {}}, "needs an https:// url"),
        ({"url": URL, "headers": {"authorization": "Bearer x"}, "oauth": {}}, "exclude each other"),
        ({"url": URL, "oauth": {"flow": "client_credentials", "client_id": "x"}}, "needs client_id and"),
        ({"url": URL, "oauth": {"client_metadata_url": "http://example.com/x"}}, "https:// URL with a path"),
        ({"url": URL, "oauth": {"client_metadata_url": "https://example.com"}}, "https:// URL with a path"),
        ({"url": URL, "oauth": {"flow": "password"}}, "client_credentials"),
        ({"url": URL, "oauth": {"issuer": "http://id.example.com"}}, "https:// URL"),
    ],
)
def test_a_login_that_cannot_work_is_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        BackendConfig.model_validate({"name": "web", **keys})


def test_an_agent_cannot_register_a_backend_with_a_login() -> None:
    with pytest.raises(ConfigError, match="logins are made for backends of the configuration only"):
        dynamic_backend({"name": "web", "url": URL, "oauth": {}})


@pytest.mark.parametrize(
    ("oauth", "warned"),
    [
        ({}, False),
        ({"client_id": "c", "client_secret": "s3cret-of-the-client"}, True),
        ({"client_id": "c", "exchange": "jwt"}, True),
        ({"client_id": "c", "client_secret": "s3cret", "issuer": "https://id.example.com"}, False),
    ],
)
def test_a_secret_for_an_issuer_that_nobody_names_is_warned_of(
    tmp_path: Path, oauth: dict[str, str], warned: bool
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"backends": {"web": {"url": URL, "oauth": oauth}}}))
    loaded = load_config(path, environ={}, home=tmp_path, config_dir=tmp_path)
    said = [str(problem) for problem in loaded.problems]
    assert any("oauth.issuer" in text for text in said) is warned, said
    assert loaded.config.backends["web"].oauth is not None


@pytest.mark.parametrize("written", ["${THE_SECRET}", "secretref:env:THE_SECRET", "s3cret-of-the-client"])
def test_the_client_s_secret_is_put_in_and_hidden(tmp_path: Path, written: str) -> None:
    oauth = {"flow": "client_credentials", "client_id": "${THE_ID}", "client_secret": written}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"backends": {"web": {"url": URL, "oauth": oauth}}}))
    environ = {"THE_SECRET": "s3cret-of-the-client", "THE_ID": "client-of-the-gateway"}
    loaded = load_config(path, environ=environ, home=tmp_path, config_dir=tmp_path)
    found = loaded.config.backends["web"].oauth
    assert found is not None
    assert (found.client_id, found.client_secret) == ("client-of-the-gateway", "s3cret-of-the-client")
    assert "s3cret" not in repr(loaded.config)
    hidden = {value for _, value in loaded.secrets}
    assert "s3cret-of-the-client" in hidden
    assert "client-of-the-gateway" not in hidden  # it is in the address where a person logs in
