"""A small MCP server over stdio, as `gatemini demo --clients` starts it: `python -I -S small_server.py NAME`.

Standard library only: what is measured is what gateways cost, not what servers cost.
"""

import json
import sys

TOOL = {"name": "echo", "description": "Return the text.", "inputSchema": {"type": "object"}}


def answer(method: str, params: dict) -> dict | None:  # type: ignore[type-arg] # without typing
    """The result of a request; None where there is no such method."""
    if method == "initialize":
        server = {"name": sys.argv[1], "version": "1"}
        return {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": server,
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": str(params.get("arguments", {}).get("text"))}]}
    return {} if method == "ping" else None


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        body = (
            {"result": result}
            if result is not None
            else {"error": {"code": -32601, "message": "unknown method"}}
        )
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
