"""`gatemini install --check`: start what a client's file says as the client would, and ask it for its tools."""

from __future__ import annotations

import os
import re
import tempfile
import time
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from gatemini.cli.install_outcome import Outcome
from gatemini.cli.open_gateway import first_error
from gatemini.config.clients.client_file import ClientFile, decoded, read_bytes
from gatemini.config.clients.own_entry import OWN_NAME
from gatemini.config.clients.table import INSTALLS
from gatemini.config.documents.text_edit import EditRefused
from gatemini.text.shorten import counted

CHECK_SECONDS = 60.0
"""A first start compiles the sandbox's guest and starts the daemon."""
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)\}")
_STDERR_CHARS = 2000


def checked(name: str, file: ClientFile) -> Outcome:
    """Start the entry of this client without a shell and with the few variables that every client passes on."""
    outcome = Outcome(name, str(file.path), "refused")
    try:
        data = read_bytes(file.path)
        entry = file.servers(decoded(data)).get(OWN_NAME) if data is not None else None
    except EditRefused as error:
        outcome.detail = str(error)
        return outcome
    if not isinstance(entry, dict):
        outcome.detail = f"has no {OWN_NAME}: gatemini install {name}"
        return outcome
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        try:
            tools = anyio.run(_tools, name, entry, stderr)
        except Exception as error:  # noqa: BLE001 - whatever the client would meet is the finding
            found = first_error(error) if isinstance(error, BaseExceptionGroup) else error
            stderr.seek(0)
            said = stderr.read().strip()[-_STDERR_CHARS:]
            outcome.detail = f"did not answer: {found or type(found).__name__}"
            outcome.lines = [said]
            return outcome
    seconds = time.perf_counter() - begun
    outcome.status = "answered"
    outcome.detail = f"{counted(len(tools), 'tool')} after {seconds:.2f} s: {', '.join(tools)}"
    outcome.more = {"tools": tools, "seconds": round(seconds, 3)}
    return outcome


async def _tools(name: str, entry: dict[str, Any], stderr: Any) -> list[str]:
    with anyio.fail_after(CHECK_SECONDS):
        if url := entry.get(INSTALLS[name].url or "url"):
            headers = {key: _filled(str(value)) for key, value in entry.get("headers", {}).items()}
            if variable := entry.get("bearer_token_env_var"):
                headers["Authorization"] = f"Bearer {os.environ.get(variable, '')}"
            async with (
                httpx2.AsyncClient(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                return [tool.name for tool in (await client.list_tools()).tools]
        server = StdioServerParameters(
            command=entry["command"], args=entry.get("args", []), env=entry.get("env")
        )
        async with Client(stdio_client(server, errlog=stderr)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]


def _filled(text: str) -> str:
    """A header with the variables that the client would fill in."""
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), text)
