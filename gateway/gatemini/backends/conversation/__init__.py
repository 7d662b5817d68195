"""A JSON-RPC conversation with one backend, and the MCP exchanges that open it or ask the client."""
