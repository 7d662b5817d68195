"""Answer commands of the terminal to an HTTP server: `gatemini status`, `stop` and `approve`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gatemini.daemon import console
from gatemini.daemon.hello import Hello

if TYPE_CHECKING:
    from gatemini.http.server import HttpServer


async def answer_control(server: HttpServer, sock: str, hello: Hello) -> dict[str, Any]:
    """Return the answer to one command, which came on the socket `sock`."""
    match hello.control:
        case "":
            return {"gatemini": "failed", "reason": "this process serves HTTP, not stdio"}
        case "status":
            return {**server.status(), "socket": sock}
        case "stop":
            seconds = server.stop(now=bool(hello.arguments.get("now")))
            return {"ok": True, "pid": os.getpid(), "drain_seconds": seconds}
        case console.LIST | console.DECIDE if server.replicas is not None:
            return await server.replicas.console.answer(hello)
        case console.LIST | console.DECIDE:
            return await console.answer(server.app.approvals, server.app.chain.redactor, hello)
        case other:
            return {"ok": False, "error": f"an HTTP server does not take the command {other}"}
