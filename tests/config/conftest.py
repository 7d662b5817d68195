"""A configuration in a folder of its own, loaded with exactly the variables a test names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gatemini.config.load import Loaded, load_config

Load = Callable[..., Loaded]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def loaded(text: str, env: Mapping[str, str] | None = None, *, name: str = "config.yaml") -> Loaded:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return load_config(path, environ=env or {}, home=tmp_path / "home", config_dir=tmp_path / "conf")

    return loaded
