"""Composite tools of the configuration as tools of the backend `__composite`, for the registry.

No process is behind it: `chain/composite.py` runs their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatemini.config.model.schema import CompositeTool
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.model import Tool

NO_DESCRIPTION = "A composite tool of this gateway's configuration."


def composite_tools(configured: Mapping[str, CompositeTool]) -> list[Tool]:
    """The configured composite tools as the registry lists them."""
    return [
        Tool(
            backend=COMPOSITE_BACKEND,
            name=name,
            description=tool.description or NO_DESCRIPTION,
            input_schema=_object_schema(tool.input_schema),
        )
        for name, tool in configured.items()
    ]


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}
